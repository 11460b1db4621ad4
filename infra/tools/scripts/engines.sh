#!/bin/sh
# Runs the flow tests with a second DynamoDB engine beside the one of the local cloud: every call goes to both, and the
# two answers must agree. It runs once with ministack and once with Amazon's DynamoDB Local, which comes in the npm
# package below (its licence allows using it, not redistributing it). `engines.sh ministack` or
# `engines.sh dynamodb-local` runs one of them.
set -eu
cd "$(dirname "$0")/../../.."
DYNAMODB_LOCAL=amplify-dynamodb-simulator@2.9.30
PORT="${PORT:-18921}"
# Excluded: costs, because only the engine of the local cloud counts them; and crowd, crashes and interleavings, because
# they make the same few calls in hundreds of worlds, each of which would need its own tables in the other engine.
EXCLUDED="costs|crowd|crashes|money_crashes|interleavings|dependencies"
TESTS="package(seckill-tests) and binary(flows) and not test(/^($EXCLUDED)::/)"

work=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    server=
}
trap 'stop; rm -rf "$work"' EXIT INT TERM

# Installs an engine before it is started: the first time this takes longer than the wait for its port.
install_ministack() { infra/tools/scripts/venv.sh ministack >/dev/null; }

ministack() {
    venv=$(infra/tools/scripts/venv.sh ministack)
    IOT_MTLS_ENABLED=0 GATEWAY_PORT=$PORT BIND_HOST=127.0.0.1 exec_in "$work" "$venv/bin/ministack"
}

FOLDER=.venv/dynamodb-local
install_dynamodb_local() {
    for tool in java npm; do
        command -v "$tool" >/dev/null || { echo "DynamoDB Local needs Java 17 and npm: $tool is missing." >&2; exit 1; }
    done
    [ ! -f "$FOLDER/DynamoDBLocal.jar" ] || return 0
    echo "Fetching $DYNAMODB_LOCAL..." >&2
    npm pack --silent --pack-destination "$work" "$DYNAMODB_LOCAL" >/dev/null
    mkdir -p "$FOLDER"
    tar -xzf "$work"/amplify-dynamodb-simulator-*.tgz -C "$FOLDER" --strip-components 2 package/emulator
}

dynamodb_local() {
    exec_in "$FOLDER" java -Djava.library.path=./DynamoDBLocal_lib -jar DynamoDBLocal.jar -inMemory -port "$PORT"
}

exec_in() {
    cd "$1"
    shift
    exec "$@"
}

run() {
    echo "flows' tests, every DynamoDB call also on $1:"
    "install_$2"
    "$2" >"$work/$2.log" 2>&1 &
    server=$!
    tries=0
    until curl --silent --output /dev/null "http://127.0.0.1:$PORT/"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
            echo "$1 did not start on port $PORT:" >&2
            tail -20 "$work/$2.log" >&2
            exit 1
        fi
        sleep 0.3
    done
    DYNAMODB_ENDPOINT="http://127.0.0.1:$PORT" infra/tools/scripts/nextest.sh run --workspace --filterset "$TESTS"
    stop
}

case ${1:-both} in
    ministack) run ministack ministack ;;
    dynamodb-local) run "Amazon's DynamoDB Local" dynamodb_local ;;
    both)
        run ministack ministack
        run "Amazon's DynamoDB Local" dynamodb_local
        ;;
    *) echo "Usage: engines.sh [ministack|dynamodb-local]" >&2; exit 1 ;;
esac
