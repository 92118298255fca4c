#!/usr/bin/env bats
# shellcheck disable=SC2016 # expressions meant inside
# Rich results of the libraries in the python image.
load helpers

# The forms of each result of a call, a line each: forms_of NAME CODE
forms_of() {
    python3 "$BATS_TEST_DIRNAME/records.py" "$@" | python3 -c '
import base64, json, sys
for record in map(json.loads, sys.stdin):
    data = record.get("data", {"error": record.get("value")})
    if "image/png" in data:
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG\r\n")
    print(*sorted(data), "main" if record.get("is_main") else "")'
}

@test "figures are results, in order, whether shown or left open, and each once" {
    start_box figures
    run forms_of figures "import matplotlib.pyplot as plt
plt.plot([1]); plt.show()
shown = plt.figure(); display(shown)
plt.figure(); plt.bar([1], [2])
plt.rcParams['savefig.format'] = 'svg'
'value'"
    assert_equal "$output" "application/vnd.e2b.chart.v0+json image/png text/plain 
image/png text/plain 
text/plain main
application/vnd.e2b.chart.v0+json image/png image/svg+xml text/plain "
    run msb exec figures -c 'plt.get_fignums()'
    assert_equal "$output" "[]"
    msb stop figures
}

@test "a figure that was changed after it was shown is shown again" {
    start_box changed
    run forms_of changed "import matplotlib.pyplot as plt
figure, axes = plt.subplots(); display(figure); axes.plot([1, 2])
None"
    assert_equal "${#lines[@]}" 2
    msb stop changed
}

@test "figures have the formats that were asked for" {
    start_box formats
    for ask in "%config InlineBackend.figure_format = 'svg'" \
        "import matplotlib_inline.backend_inline as b; b.set_matplotlib_formats('svg')" \
        "from IPython.display import set_matplotlib_formats as s; s('svg')" \
        "%env MSB_FIGURE_FORMATS=svg"; do
        run forms_of formats "$ask
import matplotlib.pyplot as plt; plt.figure();"
        assert_equal "$output" "image/svg+xml text/plain "
        msb exec formats -c "from IPython.display import set_matplotlib_formats as s; s()"
    done
    msb stop formats
}

@test "charts have what was drawn" {
    start_box charts
    run python3 "$BATS_TEST_DIRNAME/records.py" charts "import matplotlib.pyplot as plt
plt.bar(['a', 'b'], [3, 4], label='g'); plt.title('T'); plt.xlabel('X'); plt.show()
plt.plot([1, 2], [3, 5], label='l');"
    assert_contains "${lines[0]}" '"elements": [{"group": "g", "label": "a", "value": 3}, {"group": "g", "label": "b", "value": 4}], "title": "T", "type": "bar", "x_label": "X"'
    assert_contains "${lines[1]}" '"elements": [{"label": "l", "points": [[1, 3], [2, 5]]}]'
    msb stop charts
}

@test "frames are text, html and a table, bounded, and pictures png" {
    start_box frames
    run forms_of frames "import pandas; frame = pandas.DataFrame({'a': range(100000)}); frame"
    assert_equal "$output" "application/vnd.msb.table+json text/html text/plain main"
    run bash -c "python3 '$BATS_TEST_DIRNAME/records.py' frames frame | python3 -c '
import json, sys
table = json.load(sys.stdin)[\"data\"][\"application/vnd.msb.table+json\"]
print(table[\"shape\"], table[\"truncated\"], table[\"columns\"][\"a\"] == list(range(1000)))'"
    assert_equal "$output" "[100000, 1] True True"
    run msb exec frames -c 'print(len(frame._repr_html_()) < 20000)'
    assert_equal "$output" True
    run forms_of frames "from PIL import Image; Image.new('RGB', (2, 2))"
    assert_equal "$output" "image/png text/plain main"
    msb stop frames
}

@test "libraries stay out of sight until they are imported" {
    run msb exe python -c "import sys; display(1); [m for m in ('IPython', 'matplotlib', 'numpy') if m in sys.modules]"
    assert_equal "$output" "1
[]"
}

@test "an image is told by a line" {
    run msb exe python -c "from PIL import Image; display(Image.new('L', (2, 2)))"
    assert_equal "${lines[1]}" "[image/png, 1 KB]"
}

@test "a new folder of packages of the user is found" {
    run msb exe python -c '!mkdir -p $(python3 -m site --user-site) && echo x=5 > $(python3 -m site --user-site)/fresh.py
import fresh; fresh.x'
    assert_equal "$output" 5
}
