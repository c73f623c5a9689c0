# syntax=docker/dockerfile:1
# The agent, for a GPU host that runs containers:
#   docker buildx build --platform linux/amd64,linux/arm64 -f deploy/docker/agent.Dockerfile -t REGISTRY/warpmeter-agent .
# It starts as nobody in particular; what needs root or a capability, and which, stands in docs/deploy/containers.md.
ARG PYTHON_VERSION=3.11
ARG DEBIAN=trixie
# grpcio, of extra kubernetes, is loaded on hosts alone that have the kubelet's or a runtime's socket.
ARG EXTRAS=agent,kubernetes
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
# Debian's packages beside it, e.g. --build-arg PACKAGES=linux-perf for the stacks of a whole host.
ARG PACKAGES=
LABEL org.opencontainers.image.title="warpmeter agent" \
      org.opencontainers.image.description="Measures a GPU host and publishes to Kafka" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN if [ -n "$PACKAGES" ]; then \
      apt-get update -qq && apt-get install -y -qq --no-install-recommends $PACKAGES && rm -rf /var/lib/apt/lists/*; \
    fi \
 && groupadd --gid 65532 warpmeter && useradd --uid 65532 --gid 65532 --no-create-home --shell /usr/sbin/nologin warpmeter \
 && install -d -o warpmeter -g warpmeter /var/lib/warpmeter /run/warpmeter
COPY --from=environment /opt/warpmeter /opt/warpmeter
COPY deploy/docker/healthy.py /opt/warpmeter/healthy.py
ENV PATH=/opt/warpmeter/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# For NVIDIA's container runtime: NVML of every GPU of the host, and nothing to compute with.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=utility
USER 65532:65532
EXPOSE 9701
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s \
  CMD ["python", "/opt/warpmeter/healthy.py", "http://127.0.0.1:9701/metrics"]
ENTRYPOINT ["warpmeter"]
CMD ["agent"]
