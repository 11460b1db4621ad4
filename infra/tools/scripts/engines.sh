#!/bin/sh
# Runs the tests of the flows with a second DynamoDB engine beside the local cloud's own: every call goes to both, and the two answers must say the same
# (tests/second_engine.rs). Once with ministack, once with Amazon's own DynamoDB Local, which the npm package below brings along (its licence lets one use it, not
# pass it on). `engines.sh ministack` or `engines.sh dynamodb-local` runs one of them.
set -eu
cd "$(dirname "$0")/../../.."
DYNAMODB_LOCAL=amplify-dynamodb-simulator@2.9.30
PORT="${PORT:-18921}"
# Left out, with the reason: what a call costs is counted by the local cloud's engine alone; the crowd, the crashes and the interleavings make the same few calls in hundreds
# of worlds, each of which would need tables of its own in the other engine.
TESTS="package(seckill-tests) and binary(flows) and not test(/^(costs|crowd|crashes|money_crashes|interleavings|dependencies)::/)"

work=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    server=
}
trap 'stop; rm -rf "$work"' EXIT INT TERM

# What an engine needs is here before it is started: the first time that takes longer than one waits for its port.
install_ministack() { infra/tools/scripts/venv.sh ministack >/dev/null; }

ministack() {
    venv=$(infra/tools/scripts/venv.sh ministack)
    IOT_MTLS_ENABLED=0 GATEWAY_PORT=$PORT BIND_HOST=127.0.0.1 exec_in "$work" "$venv/bin/ministack"
}

FOLDER=.venv/dynamodb-local
install_dynamodb_local() {
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
    *) echo "engines.sh [ministack|dynamodb-local]" >&2; exit 1 ;;
esac
