#!/bin/sh
# Runs the cases of cloud/tests/it/cases against software that nobody here wrote (the PyPI package ministack), in real
# time. A case that fails there and passes here is a difference to explain: DIFFERENCES below names those that are
# known, with the reason. The script fails if another case fails, or if a known difference is gone.
set -eu

PORT="${PORT:-18911}"
# A case that differs, and in the next line why.
DIFFERENCES='
cases::scheduler::a_name_is_at_most_64_plain_characters
  the API reference gives 1 to 64 of ^[0-9a-zA-Z-_.]+$; ministack takes any name
cases::scheduler::a_time_in_the_past_is_refused
  users of AWS report a refusal at create (pulumi-defang, selfdestruct_aws.go); ministack takes it
cases::scheduler::the_same_request_with_the_same_token_is_answered_again
  the API reference says that ClientToken makes the request idempotent; ministack ignores it
cases::scheduler::what_is_no_expression_is_refused
  AWS answers ValidationException, Invalid Schedule Expression; ministack takes any text
cases::sqs::a_late_delete_with_an_old_receipt_succeeds_and_deletes_nothing
  the API reference: "the request succeeds, but the message will not be deleted"; ministack: ReceiptHandleIsInvalid
cases::sqs::deleting_a_message_again_is_no_error
  as with an old receipt; ministack answers ReceiptHandleIsInvalid
cases::sqs::each_entry_of_a_sent_batch_has_an_answer_of_its_own
  the API reference limits DelaySeconds to 900; ministack takes 901
cases::sqs::visibility_of_a_message_that_is_not_in_flight_cannot_be_changed
  the API reference has MessageNotInflight; ministack answers success
'

cd "$(dirname "$0")/../.."
venv=$(infra/tools/scripts/venv.sh ministack)

work=$(mktemp -d)
GATEWAY_PORT=$PORT BIND_HOST=127.0.0.1 "$venv/bin/ministack" >"$work/ministack.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT INT TERM

tries=0
until curl --silent --output /dev/null "http://127.0.0.1:$PORT/"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
        echo "ministack did not start on port $PORT:" >&2
        tail -20 "$work/ministack.log" >&2
        exit 1
    fi
    sleep 0.3
done

echo "cases against ministack (the schedules need about a minute):"
LOCAL_CLOUD_TARGET="http://127.0.0.1:$PORT" NO_COLOR=1 \
    infra/tools/scripts/nextest.sh run --workspace --no-fail-fast --test-threads 16 --success-output never \
    --failure-output final --filterset "package(local-cloud) & test(/^cases::/)" >"$work/cases.log" 2>&1 || true
if ! grep -q '^ *Summary' "$work/cases.log"; then
    cat "$work/cases.log" >&2
    exit 1
fi

cases_that() { # RESULT: the cases that nextest reports so
    sed -n -E "s/^ *($1) .*local-cloud::it (cases::[a-z_:0-9]*).*/\\2/p" "$work/cases.log" | sort -u
}
cases_that PASS >"$work/agree"
cases_that 'FAIL|TIMEOUT' >"$work/differ"
printf '%s\n' "$DIFFERENCES" | grep '^cases::' | sort -u >"$work/known"
sed 's/^/  agrees   /' "$work/agree"
while read -r name; do
    why=$(printf '%s\n' "$DIFFERENCES" | grep -A 1 -x "$name" | sed -n '2s/^ *//p')
    echo "  differs  $name${why:+: }$why"
done <"$work/differ"

unexpected=$(comm -3 "$work/differ" "$work/known")
if [ -n "$unexpected" ]; then
    echo "not as recorded in agree.sh:" >&2
    echo "$unexpected" >&2
    cp "$work/cases.log" target/agree.log
    echo "the cases' output is in target/agree.log" >&2
    exit 1
fi
echo "$(wc -l <"$work/agree") cases agree, $(wc -l <"$work/differ") differ as recorded"
