# The server and its command. Built by docker-compose.yml; no password and no key is in the image.
FROM python:3.11.13-slim
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir ".[postgres,cassandra,kafka,service]" && rm -rf /src/* \
    && useradd --create-home headwater && install -d -o headwater /var/lib/headwater
USER headwater
WORKDIR /var/lib/headwater
EXPOSE 8181
ENTRYPOINT ["headwater"]
