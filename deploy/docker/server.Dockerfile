# syntax=docker/dockerfile:1
# Ingest, scheduler and web, and every command; which of them it is, the command says:
#   docker buildx build --platform linux/amd64,linux/arm64 -f deploy/docker/server.Dockerfile -t REGISTRY/warpmeter-server .
ARG PYTHON_VERSION=3.11
ARG DEBIAN=trixie
ARG EXTRAS=ingest,scheduler,web,top
# More from PyPI beside it, e.g. --build-arg ALSO=s3fs where traces.url is s3://…
ARG ALSO=

# The wheel is the same on every platform: it is made once, on the builder's own.
FROM --platform=$BUILDPLATFORM python:${PYTHON_VERSION}-slim-${DEBIAN} AS wheel
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md ./
COPY src src
COPY schemas schemas
COPY producers producers
COPY consumers consumers
COPY analysis analysis
COPY scheduler scheduler
COPY web web
COPY sql sql
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=/src/constraints.txt
RUN python -m pip wheel --quiet --no-cache-dir --no-deps --wheel-dir /dist .

# The environment, for the platform that the image is for. Wheels alone: nothing is compiled, under emulation either.
# pip stays outside of it.
FROM python:${PYTHON_VERSION}-slim-${DEBIAN} AS environment
ARG EXTRAS
ARG ALSO
COPY constraints.txt /
COPY --from=wheel /dist /dist
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv --without-pip /opt/warpmeter \
 && python -m pip --python /opt/warpmeter/bin/python install --quiet --no-cache-dir --only-binary=:all: \
    --constraint /constraints.txt "$(echo /dist/warpmeter-*.whl)[${EXTRAS}]" ${ALSO}

FROM python:${PYTHON_VERSION}-slim-${DEBIAN}
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="warpmeter server" \
      org.opencontainers.image.description="Lands what agents measure in ClickHouse; captures, reports, alerts, the page" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN groupadd --gid 65532 warpmeter && useradd --uid 65532 --gid 65532 --no-create-home --shell /usr/sbin/nologin warpmeter \
 && install -d -o warpmeter -g warpmeter /var/lib/warpmeter
COPY --from=environment /opt/warpmeter /opt/warpmeter
COPY deploy/docker/healthy.py /opt/warpmeter/healthy.py
# matplotlib, of reports, keeps a cache of fonts; the root may be read-only.
ENV PATH=/opt/warpmeter/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp MPLCONFIGDIR=/tmp/matplotlib
USER 65532:65532
EXPOSE 8080 9702 9704 9705
HEALTHCHECK --interval=30s --timeout=20s --start-period=60s \
  CMD ["python", "/opt/warpmeter/healthy.py", "http://127.0.0.1:9702/metrics", "http://127.0.0.1:9704/metrics", "http://127.0.0.1:9705/metrics"]
ENTRYPOINT ["warpmeter"]
CMD ["--help"]
