# The server and its command. Built by docker-compose.yml; no password and no key is in the image.
FROM python:3.11.13-slim-bookworm AS headwater
WORKDIR /src
COPY . .
# uv checks every download against the hashes in requirements.txt.
RUN pip install --no-cache-dir --root-user-action=ignore uv==0.13.7 \
    && uv pip install --system --no-cache --compile-bytecode --constraint requirements.txt --build-constraint requirements.txt \
       ".[postgres,cassandra,kafka,faust,client,service,nessie,files,grpc,metrics,otel]" \
    && pip uninstall --yes --root-user-action=ignore uv && rm -rf /src/* \
    && useradd --create-home --uid 10001 headwater && install -d -o headwater /var/lib/headwater
USER headwater
WORKDIR /var/lib/headwater
EXPOSE 8181
ENTRYPOINT ["headwater"]

# The same with Java and Spark, for `headwater stream`. The connectors' jars are fetched when the image is built.
FROM headwater AS headwater-spark
USER root
WORKDIR /src
COPY . .
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir --root-user-action=ignore uv==0.13.7 \
    && uv pip install --system --no-cache --compile-bytecode --constraint requirements.txt --build-constraint requirements.txt \
       ".[postgres,cassandra,kafka,faust,client,service,nessie,files,grpc,metrics,otel,spark]" \
    && pip uninstall --yes --root-user-action=ignore uv && rm -rf /src/*
ENV HEADWATER_JAR_CACHE_DIR=/opt/headwater/jars
RUN install -d -o headwater /opt/headwater/jars /var/lib/headwater/sets
USER headwater
WORKDIR /var/lib/headwater
RUN python -c "from pathlib import Path; from headwater.dev.jars import fetch_jars; fetch_jars('spark', Path('/opt/headwater/jars'))"
ENTRYPOINT ["headwater"]
