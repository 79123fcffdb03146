# Server, client or aggregator: docker build -t crescendo . ; docs/deploy.md has a compose file. No keys and no records are in the image.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Every package by its SHA-256, for Linux x86-64; only this layer needs the network, and it is kept while the lock is the same.
COPY requirements.lock /src/
RUN pip install --require-hashes -r /src/requirements.lock

COPY pyproject.toml README.md LICENSE /src/
COPY crescendo /src/crescendo
COPY dp /src/dp
RUN pip install --no-deps --no-build-isolation --no-index /src/dp /src && rm -r /src

# Its number is fixed, so that volumes can be given to it: chown 10001 state
RUN useradd --uid 10001 --create-home crescendo && install -d -o crescendo -g crescendo -m 0700 /federation /federation/state
USER crescendo
# Which records have which ledger; in the home folder it would be lost with the container.
ENV CRESCENDO_REGISTRY=/federation/state/registry
WORKDIR /federation
VOLUME /federation/state

# For a server that was started with --health 127.0.0.1:8080; start others with --no-healthcheck.
HEALTHCHECK --start-period=120s --interval=30s --timeout=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=5)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["crescendo"]
