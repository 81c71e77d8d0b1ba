"""The output of a job as log messages."""

from __future__ import annotations

MOST_MESSAGE_BYTES = 10 * 1024


def messages(output: bytes) -> list[str]:
    """`output` as messages of at most MOST_MESSAGE_BYTES in UTF-8, split at the ends of lines where possible."""
    text = output.decode("utf-8", "replace").encode()
    found, start = [], 0
    while start < len(text):
        end = start + MOST_MESSAGE_BYTES
        if end < len(text):
            end = text.rfind(b"\n", start, end) + 1 or end
            while text[end] & 0xC0 == 0x80:  # inside a character
                end -= 1
        found.append(text[start:end].decode())
        start = end
    return found
