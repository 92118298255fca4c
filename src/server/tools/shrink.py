"""Prints a picture as a smaller PNG, in base64: shrink.py PATH MOST-BYTES."""
import base64
import io
import resource
import sys

resource.setrlimit(resource.RLIMIT_AS, (384 << 20, 384 << 20))
with open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
    score.write("1000")  # if memory runs out, not what the user runs is to end

from PIL import Image

image = Image.open(sys.argv[1], formats=("PNG", "JPEG"))
image.draft("RGB", (1600, 1600))
if image.mode not in ("L", "RGB", "RGBA"):
    image = image.convert("RGBA")
most = int(sys.argv[2])
side = 1600
for _ in range(6):
    image.thumbnail((side, side))
    smaller = io.BytesIO()
    image.save(smaller, "PNG")
    if smaller.tell() <= most:
        print(base64.b64encode(smaller.getvalue()).decode("ascii"))
        sys.exit()
    side = max(image.size) * (most / smaller.tell()) ** 0.5 * 0.95
sys.exit("it does not get small enough")
