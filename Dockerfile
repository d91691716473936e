# Two stages: the first installs, the second only runs.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY requirements/ requirements/
COPY config/ config/
COPY models/ models/
COPY routing/ routing/
COPY tasks/ tasks/
COPY console/ console/
RUN python -m venv /opt/ratelane \
 && /opt/ratelane/bin/pip install --no-cache-dir --disable-pip-version-check -c requirements/constraints.txt .

FROM python:3.11-slim-bookworm
RUN groupadd --system --gid 10001 ratelane \
 && useradd --system --uid 10001 --gid ratelane --home-dir /var/lib/ratelane --create-home --shell /usr/sbin/nologin ratelane
COPY --from=build /opt/ratelane /opt/ratelane
ENV PATH=/opt/ratelane/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    RATELANE_HOME=/var/lib/ratelane
# no folder of the image is called config here: Celery imports from the current folder first
WORKDIR /var/lib/ratelane
VOLUME /var/lib/ratelane
USER ratelane
STOPSIGNAL SIGTERM
CMD ["celery", "-A", "config", "worker", "--loglevel", "INFO"]
