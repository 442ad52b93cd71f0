"""A page of `microdnn report`, taken apart for test/report_tool.sh."""
import json
import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "path", "use", "rect", "circle"}


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.numbers, self.figures, self.tables = [], [], []
        self.ids, self.targets, self.references, self.scripts, self.levels = [], [], [], [], []
        self.text = self.policy = self.language = self.skip_link = ""
        self.viewport = False
        self.json = self.css = None
        self._stack, self._region = [], None
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    # ---- elements ----

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag not in VOID:
            self._stack.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        self._refer(tag, found)
        make = self._number if tag == "data" else getattr(self, f"_{tag}", None)
        if make:
            make(found)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def _refer(self, tag, found):
        for name in "src", "href", "xlink:href", "action", "poster", "srcset":
            value = found.get(name)
            if value is None:
                continue
            if value.startswith("#"):
                self.targets.append(value[1:])
            elif not value.startswith("data:"):
                self.references.append((tag, name, value))
        for name in "aria-labelledby", "aria-describedby":
            self.targets += found.get(name, "").split()
        self._look_for_urls(found.get("style", ""))

    def _look_for_urls(self, text):
        self.references += [("css", "url", url) for url in re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")\s;]*)", text)
                            if not url.startswith(("#", "data:"))]

    def _html(self, found):
        self.language = found.get("lang", "")

    def _meta(self, found):
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]
        self.viewport |= found.get("name") == "viewport"

    def _a(self, found):
        if found.get("class") == "skip":
            self.skip_link = found["href"]

    def _script(self, found):
        self.scripts.append(found.get("type", ""))

    def _number(self, found):
        self.numbers.append([found["value"], found["data-path"], ""])

    def _div(self, found):
        if found.get("role") == "region":
            self._region = found

    def _figure(self, found):
        self.figures.append({"label": found["aria-labelledby"], "svgs": 0, "caption": ""})

    def _svg(self, _):
        if self.figures:
            self.figures[-1]["svgs"] += 1

    def _table(self, _):
        self.tables.append({"caption": "", "heads": [], "rows": -1, "row_heads": 0,
                            "focusable": (self._region or {}).get("tabindex") == "0"})

    def _tr(self, _):
        self.tables[-1]["rows"] += 1

    def _th(self, found):
        if found.get("scope") == "row":
            self.tables[-1]["row_heads"] += 1
        elif found.get("scope") == "col":
            self.tables[-1]["heads"].append("")

    def handle_endtag(self, tag):
        if tag in self._stack:
            while self._stack.pop() != tag:
                pass

    def handle_data(self, text):
        inside = self._stack[-1] if self._stack else ""
        if inside == "script":
            self.json = json.loads(text)
            return
        if inside == "style":
            self._look_for_urls(text)
            self.css = text if self.css is None else self.css
            return
        self.text += text
        if inside == "data":
            self.numbers[-1][2] += text
        if re.fullmatch("h[1-6]", inside) and text.strip():
            self.levels.append(int(inside[1]))
        if "figcaption" in self._stack:
            self.figures[-1]["caption"] += text
        if inside == "caption":
            self.tables[-1]["caption"] += text
        if inside == "th" and "thead" in self._stack:
            self.tables[-1]["heads"][-1] += text

    # ---- questions ----

    def dangling(self):
        return [name for name in self.targets if name not in self.ids]

    @staticmethod
    def is_close(value, shown):
        """Whether the text is that number, rounded to three digits."""
        match = re.fullmatch(r"(-?[\d  ]+(?:\.\d+)?(?:e[+-]?\d+)?) ?(bytes|KiB|MiB|GiB|ms|s)?", shown)
        if not match:
            return False
        unit = {None: 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ms": 1, "s": 1000}[match.group(2)]
        read = float(match.group(1).replace(" ", "").replace("\u202f", "")) * unit
        return abs(read - value) <= max(0.006 * abs(value), 0.0006 if match.group(2) == "ms" else 0)

    def colour_pairs(self):
        """Each colour of text with the grounds that it stands on."""
        names = dict(re.findall(r"--(\w+): (#\w+)", self.css))
        grounds = [names["paper"], names["ground"]]
        return [((name, ground), contrast(names[name], ground)) for name in ("ink", "soft", "accent", "warn")
                for ground in grounds]


def contrast(one, other):
    def light(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[place:place + 2], 16) / 255 for place in (0, 2, 4)]
        parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
