# Reads a stage's file; to be sourced from the project's folder. A stage is infra/stages/$STAGE.toml, in SAM's own format.

say() { echo "$*" >&2; }
stop() { say "$*"; exit 1; }

# Sets file and stack, and has every AWS tool work in the stage's region.
needs_stage() {
    [ -n "${STAGE:-}" ] || stop "Which stage? Say STAGE=... ($(ls infra/stages | sed 's/\.toml$//' | tr '\n' ' ')), or write infra/stages/NAME.toml first."
    file=$PWD/infra/stages/$STAGE.toml
    [ -f "$file" ] || stop "There is no infra/stages/$STAGE.toml: copy dev.toml, and change the names in it."
    stack=$(setting stack_name)
    [ -n "$stack" ] || stop "infra/stages/$STAGE.toml names no stack_name."
    region=$(setting region)
    if [ -n "$region" ]; then export AWS_DEFAULT_REGION="$region" AWS_REGION="$region"; fi
}

# A setting of the stage's file.
setting() { sed -n "s/^$1 *= *\"\(.*\)\" *$/\1/p" "$file" | head -1; }
# A template parameter of the stage's file.
parameter() { sed -n 's/\\"/"/g; s/^parameter_overrides *= *"\(.*\)" *$/\1/p' "$file" | grep -o "$1=\"\?[^\" ]*" | head -1 | sed 's/^[^=]*="\?//'; }
