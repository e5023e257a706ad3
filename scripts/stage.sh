# Shared by the shell scripts: stages with elapsed time, and failures that name their cause. Source it; do not run it.
STAGE_T0=${STAGE_T0:-$(date +%s)}
export STAGE_T0

elapsed() { local s=$(($(date +%s) - STAGE_T0)); printf '[%3d:%02d]' $((s / 60)) $((s % 60)); }
say() { printf '%s %s\n' "$(elapsed)" "$*"; }
# die WHAT REMEDY: says both and ends the script.
die() { printf '%s FAILED: %s\n' "$(elapsed)" "$1" >&2; printf '          what to do: %s\n' "$2" >&2; exit 1; }
