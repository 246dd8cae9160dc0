#!/usr/bin/env python3
"""TLS on the REST port: a large body, a handshake that comes in crumbs, sessions that end in every way, and bytes that are none."""
import hashlib
import os
import socket
import ssl

from harness import check, run, wait_for

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
SESSIONS = 300


def test(lab):
    lab.write_config()
    lab.start_daemon()
    token = lab.api("POST", "/v1/tokens", {"name": "tls", "role": "admin"}).json["token"]
    context = ssl.create_default_context(cafile=lab.data_dir / "tls" / "cert.pem")

    def plain():
        s = socket.create_connection(("127.0.0.1", lab.ports["api"]), timeout=20)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def session():
        return context.wrap_socket(plain(), server_hostname="localhost")

    def served(answer):
        check(answer.startswith(b"HTTP/1.1 200"), f"answered {answer[:200]!r}")

    blob = os.urandom(20 << 20)
    name = hashlib.sha256(blob).hexdigest()
    with session() as s:
        s.sendall(f"PUT /v1/blobs/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                  f"Content-Length: {len(blob)}\r\n\r\n".encode())
        s.sendall(blob)
        answer = s.recv(4096)
        check(answer.startswith(b"HTTP/1.1 201"), f"a blob of 20 MiB over TLS: {answer[:300]!r}")
    check((lab.data_dir / "blobs" / name).read_bytes() == blob, "the blob is not what was sent")

    # Sent byte by byte, read seven bytes at a time.
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    crumbs = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    raw = plain()

    def through(step):
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                done = None
            for byte in outgoing.read():
                raw.sendall(bytes([byte]))
            if done is not None:
                return done
            incoming.write(raw.recv(7))
    through(lambda: crumbs.do_handshake() or True)
    through(lambda: crumbs.write(GET))
    served(through(lambda: crumbs.read(4096)))
    raw.close()

    wait_for("the first connections to be over", lambda: lab.descriptors() < 40, 30)
    before = lab.descriptors()
    sessions = [session() for _ in range(SESSIONS)]
    for s in sessions:
        s.sendall(GET)
    for s in sessions:
        served(s.recv(4096))
    for number, s in enumerate(sessions):
        if number % 3 == 1:
            s.unwrap()  # a farewell, and the daemon's
        elif number % 3 == 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        s.close()
    for garbage in (b"\x16" + os.urandom(300), b"\x16\x03\x01\xff\xff" + os.urandom(70_000), b"\x16\x03\x01"):
        with plain() as s:
            s.sendall(garbage)
    wait_for("the descriptors to be given back", lambda: lab.descriptors() <= before + 2, 60)
    with session() as s:
        s.sendall(GET)
        served(s.recv(4096))


run("tls", test)
