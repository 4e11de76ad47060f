# The server and its command. Built by docker-compose.yml; no password and no key is in the image.
FROM python:3.11.13-slim
WORKDIR /src
COPY . .
# uv checks every download against the hashes in requirements.txt.
RUN pip install --no-cache-dir --root-user-action=ignore uv==0.13.7 \
    && uv pip install --system --no-cache --compile-bytecode --constraint requirements.txt --build-constraint requirements.txt \
       ".[postgres,cassandra,kafka,service,nessie,otel]" \
    && pip uninstall --yes --root-user-action=ignore uv && rm -rf /src/* \
    && useradd --create-home headwater && install -d -o headwater /var/lib/headwater
USER headwater
WORKDIR /var/lib/headwater
EXPOSE 8181
ENTRYPOINT ["headwater"]
