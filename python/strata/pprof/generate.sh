#!/usr/bin/env bash
# Makes profile_pb2.py and profile_pb2.pyi from profile.proto, in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check grpcio-tools==1.85.1
"$venv/bin/python" -m grpc_tools.protoc -I. --python_out=. --pyi_out=. strata/pprof/profile.proto
