# docker build -t kifu . && docker run --rm -v "$PWD:/data" kifu ingest games -o games.parquet
FROM python:3.11-slim
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[query,charts]'
WORKDIR /data
ENTRYPOINT ["kifu"]
