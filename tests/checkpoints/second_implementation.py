#!/usr/bin/env python3
"""A second implementation of docs/checkpoint-format.md, written from the page alone. It stores chunks plain (Python has no zstd).

  second_implementation.py write FOLDER ROOT JOB TASK ATTEMPT   stores FOLDER below ROOT, prints the manifest's hash
  second_implementation.py check ROOT JOB HASH                  reads manifest and packs, checks all that needs no zstd, prints
                                                                "files N bytes B plain P zstd Z"
"""
import hashlib
import json
import os
import stat
import struct
import sys

CHUNK = 4194304
MAGIC, END = b"\x89GFPK\r\n\x1a", b"\x89GFPKEND"


def sha(data):
    return hashlib.sha256(data).hexdigest()


def named(key, raw):
    try:
        return {key: raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {key + "_hex": raw.hex()}


def write(folder, root, job, task, attempt):
    folder = os.fsencode(folder)
    entries = {"directories": [], "files": [], "symlinks": []}
    plain = {}
    for at, dirs, files in os.walk(folder):
        relative = b"" if at == folder else at[len(folder) + 1:]
        info = os.lstat(at)
        entries["directories"].append((relative, {"mode": stat.S_IMODE(info.st_mode) & 0o777, "mtime_ns": info.st_mtime_ns, **named("path", relative)}))
        for name in files + [d for d in dirs if os.path.islink(os.path.join(at, d))]:
            full = os.path.join(at, name)
            path = full[len(folder) + 1:]
            info = os.lstat(full)
            if stat.S_ISLNK(info.st_mode):
                entries["symlinks"].append((path, {"mtime_ns": info.st_mtime_ns, **named("path", path), **named("target", os.readlink(full))}))
                continue
            with open(full, "rb") as f:
                data = f.read()
            pieces = [data[i:i + CHUNK] for i in range(0, len(data), CHUNK)]
            plain.update((sha(p), p) for p in pieces)
            entries["files"].append((path, {"chunks": [{"sha256": sha(p), "size": len(p)} for p in pieces], "mode": stat.S_IMODE(info.st_mode) & 0o777,
                                            "mtime_ns": info.st_mtime_ns, **named("path", path), "sha256": sha(data), "size": len(data)}))
    packs = []
    chunks = sorted(plain)
    for group in (chunks[i:i + 15] for i in range(0, len(chunks), 15)):
        head = MAGIC + struct.pack("<II", 1, 0)
        body, index, listed = b"", b"", []
        for name in group:
            size, offset = len(plain[name]), len(head) + len(body)
            index += bytes.fromhex(name) + struct.pack("<QIIB7x", offset, size, size, 0)
            listed.append({"offset": offset, "sha256": name, "size": size, "stored_size": size, "zstd": False})
            body += plain[name]
        trailer = struct.pack("<QII", len(head) + len(body), len(group), 1) + hashlib.sha256(head + index).digest() + bytes(8) + END
        data = head + body + index + trailer
        os.makedirs(os.path.join(root, job, f"a{attempt}"), exist_ok=True)
        with open(os.path.join(root, job, f"a{attempt}", sha(data) + ".pack"), "wb") as f:
            f.write(data)
        packs.append({"attempt": attempt, "chunks": listed, "id": sha(data), "size": len(data)})
    manifest = {"attempt": attempt, "chunk_bytes": CHUNK, "created_at_ms": 1, "format": 1, "job": job, "kind": "checkpoint", "packs": sorted(packs, key=lambda p: p["id"]),
                "step": 5, "task": task, **{key: [e for _, e in sorted(value, key=lambda v: v[0])] for key, value in entries.items()}}
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    os.makedirs(os.path.join(root, job, "manifests"), exist_ok=True)
    with open(os.path.join(root, job, "manifests", sha(text) + ".json"), "wb") as f:
        f.write(text)
    print(sha(text))


def check(root, job, name):
    with open(os.path.join(root, job, "manifests", name + ".json"), "rb") as f:
        text = f.read()
    assert sha(text) == name
    manifest = json.loads(text)
    assert manifest["format"] == 1 and manifest["chunk_bytes"] == CHUNK
    assert json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == text, "not canonical"
    found, compressed = {}, 0
    for pack in manifest["packs"]:
        with open(os.path.join(root, job, f"a{pack['attempt']}", pack["id"] + ".pack"), "rb") as f:
            data = f.read()
        assert sha(data) == pack["id"] and len(data) == pack["size"] <= 1 << 26
        assert data[:16] == MAGIC + struct.pack("<II", 1, 0) and data[-16:] == bytes(8) + END
        start, count, version = struct.unpack_from("<QII", data, len(data) - 64)
        assert version == 1 and start + 56 * count + 64 == len(data)
        assert data[-48:-16] == hashlib.sha256(data[:16] + data[start:-64]).digest()
        index, expected = {}, 16
        for i in range(count):
            digest, offset, stored, size, codec = struct.unpack_from("<32sQIIB7x", data, start + 56 * i)
            assert offset == expected and 0 < stored <= size <= CHUNK and (codec == 1 or stored == size)
            expected += stored
            index[offset] = (digest.hex(), stored, size, codec == 1)
            if codec == 0:
                assert sha(data[offset:offset + stored]) == digest.hex()
            else:
                assert data[offset:offset + 4] == b"\x28\xb5\x2f\xfd", "not a zstd frame"
                compressed += 1
        assert expected == start
        for c in pack["chunks"]:
            assert index[c["offset"]] == (c["sha256"], c["stored_size"], c["size"], c["zstd"])
            assert c["sha256"] not in found
            found[c["sha256"]] = None if c["zstd"] else data[c["offset"]:c["offset"] + c["size"]]
    used = set()
    for f in manifest["files"]:
        assert sum(c["size"] for c in f["chunks"]) == f["size"]
        used.update(c["sha256"] for c in f["chunks"])
        pieces = [found[c["sha256"]] for c in f["chunks"]]
        if None not in pieces:
            assert sha(b"".join(pieces)) == f["sha256"]
    assert used == set(found)
    print(f"files {len(manifest['files'])} bytes {sum(f['size'] for f in manifest['files'])} plain {len(found) - compressed} zstd {compressed}")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5], int(sys.argv[6]))
    else:
        check(*sys.argv[2:5])
