# docker build -t hermes-dx . && docker run --rm hermes-dx     diagnoses the bundled run (make demo)
# docker run --rm -v "$PWD/traces:/traces:ro" hermes-dx .venv/bin/hermes-dx diagnose /traces
FROM python:3.12-slim

RUN apt-get update \
 && apt-get install --yes --no-install-recommends make \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home hermes

USER hermes
WORKDIR /home/hermes/hermes-dx
COPY --chown=hermes . .
RUN make .venv/.installed

CMD ["make", "demo"]
