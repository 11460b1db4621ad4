# Reads the file of a stage, infra/stages/$STAGE.toml, in SAM's format. Source it from the root of the project.

say() { echo "$*" >&2; }
stop() { say "$*"; exit 1; }

# Sets `file` and `stack`, and makes every AWS tool use the region of the stage.
needs_stage() {
    if [ -z "${STAGE:-}" ]; then
        known=$(ls infra/stages | sed 's/\.toml$//' | tr '\n' ' ')
        stop "Which stage? Set STAGE=... (one of: $known), or create infra/stages/NAME.toml first."
    fi
    file=$PWD/infra/stages/$STAGE.toml
    [ -f "$file" ] || stop "infra/stages/$STAGE.toml does not exist: copy dev.toml, and change the names in it."
    stack=$(setting stack_name)
    [ -n "$stack" ] || stop "infra/stages/$STAGE.toml has no stack_name."
    region=$(setting region)
    if [ -n "$region" ]; then export AWS_DEFAULT_REGION="$region" AWS_REGION="$region"; fi
}

# Prints a setting of the stage.
setting() { sed -n "s/^$1 *= *\"\(.*\)\" *$/\1/p" "$file" | head -1; }
# Prints a template parameter of the stage.
parameter() {
    sed -n 's/\\"/"/g; s/^parameter_overrides *= *"\(.*\)" *$/\1/p' "$file" |
        grep -o "$1=\"\?[^\" ]*" | head -1 | sed 's/^[^=]*="\?//'
}
