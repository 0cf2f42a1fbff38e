# The images that docker-compose.yml builds: Spark's own, with the Python that requirements.lock is for. Spark's
# image has Python 3.10 and no pyarrow; driver and tasks must run on the same minor version.
FROM apache/spark:4.2.0-scala2.13-java17-python3-ubuntu AS worker

USER root
WORKDIR /opt/hivesink
COPY requirements.lock ./
# PySpark's part of the lock is left out: on a worker it is Spark's own.
RUN set -eux; \
    grep -v '^pyspark==' requirements.lock > pins.txt; \
    pip3 install --no-cache-dir uv==0.13.8; \
    UV_PYTHON_INSTALL_DIR=/opt/python uv venv --no-cache --python 3.11.18 venv; \
    uv pip install --no-cache --python venv/bin/python --requirements pins.txt; \
    pip3 uninstall --yes uv
ENV PATH=/opt/hivesink/venv/bin:$PATH \
    PYSPARK_PYTHON=/opt/hivesink/venv/bin/python \
    HOME=/opt/spark/work-dir
USER spark
WORKDIR /opt/spark/work-dir


# Tasks get the package from the driver, so workers needn't be built again when it changes.
FROM worker AS client

USER root
# The version of the image, not that of the lock: a driver speaks to a cluster of its own version.
RUN set -eux; \
    pip3 install --no-cache-dir uv==0.13.8; \
    uv pip install --no-cache --python /opt/hivesink/venv/bin/python --no-deps pyspark==4.2.0; \
    pip3 uninstall --yes uv
COPY hivesink /opt/hivesink/hivesink
COPY ddl /opt/hivesink/ddl
COPY jobs /opt/hivesink/jobs
ENV PYTHONPATH=/opt/hivesink
USER spark
