#!/bin/bash
# What action.yml runs: the model of the pull request against its baseline. The table goes to the summary of the
# workflow and to $RUNNER_TEMP/atonc.md; the exit code is that of whichever of the two commands failed.
set -uo pipefail
now="$RUNNER_TEMP/atonc_now.json" judged="$RUNNER_TEMP/atonc_judged.json" page="$RUNNER_TEMP/atonc.md"
printf '### A network on the STM32N6\n\natonc could not judge it: the log of the workflow says why.\n' > "$page"
read -r -a options <<< "$OPTIONS"
atonc analyze "$MODEL" ${options[@]+"${options[@]}"} --json > "$now"
gates=$?
if grep -q '"document": "error"' "$now"; then # its error is in the log: there is nothing to compare
  cat "$page" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
  exit "$gates"
fi
atonc compare "$now" --against "$BASELINE" --allow-worse "$ALLOW_WORSE" --json > "$judged"
worse=$?
python "$(dirname "$0")/change_table.py" "$MODEL" "$judged" "$gates" > "$page.made" && mv "$page.made" "$page"
cat "$page" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
exit $((gates ? gates : worse))
