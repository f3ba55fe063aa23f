# An image with the command `reclaim`, Java and Spark, for a catalog on PostgreSQL and S3 or for
# stores that are mounted:
#
#   docker build -t reclaim .
#   docker run --rm -e RECLAIM_CATALOG=postgresql://user@host/database reclaim gc --all --quarantine
#
# Credentials come from the environment of the container and are never part of the image.
FROM python:3.13-slim-bookworm AS wheel

WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .


FROM python:3.13-slim-bookworm

# Debian's security fixes matter more here than one exact version of Java.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home reclaim

COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /wheel/*.whl /tmp/
RUN wheel="$(ls /tmp/reclaim-*.whl)" \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt "${wheel}[postgres,s3,spark]" \
    && rm /tmp/constraints.txt "$wheel"

USER 10001
WORKDIR /home/reclaim
# Spark starts in half the time with it.
RUN python -m reclaim.cli.archiving
ENTRYPOINT ["reclaim"]
CMD ["--help"]
