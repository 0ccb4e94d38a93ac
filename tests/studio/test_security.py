"""Who may ask a studio: tokens, cookies, hosts, origins, sizes, and files that stay where they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from newkinds.data.thumbnails import webp
from newkinds.errors import InputError
from newkinds.studio.live_run import LiveRun
from newkinds.studio.pictures import Photos
from newkinds.studio.security import LARGEST_BODY, allowed_hosts, is_loopback
from newkinds.studio.server import opened
from tests.studio.conftest import HOST, ORIGIN, TOKEN, asked, copied

LOOKS = ("/", "/assets/studio.js", "/api/state", "/api/points", "/api/events", "/picture/0", "/api/export/csv")


def test_nothing_is_answered_without_the_token(digits_run):
    with asked(digits_run, entered=False) as client:
        for path in (*LOOKS, "/?token=wrong", "/?token=", "/nothing"):
            answer = client.get(path)
            assert answer.status_code == 403, path
            assert "the address that `newkinds studio` printed" in answer.text
        answer = client.post("/api/do/rename", json={"kind": "new-1", "name": "x"})
        assert answer.status_code == 403
    assert not (digits_run / "journal.jsonl").exists()


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_site_has(digits_run):
    with asked(digits_run, entered=False) as client:
        answer = client.get(f"/?token={TOKEN}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
        assert TOKEN not in cookie
        assert client.get("/api/state").status_code == 200
        client.cookies.clear()
        assert client.get("/api/state", headers={"cookie": "newkinds-8765=guessed"}).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example:8765", "127.0.0.1:9999", "127.0.0.1", "", "localhost.evil.example:8765"]
)
def test_another_name_is_refused(host, digits_client):
    answer = digits_client.get("/api/state", headers={"host": host})
    assert answer.status_code == 403
    assert "does not answer to the name" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": f"https://{HOST}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_pages_are_refused(headers, digits_client):
    for path in LOOKS[1:]:
        assert digits_client.get(path, headers=headers).status_code == 403
    answer = digits_client.post("/api/do/rename", json={"kind": "new-1", "name": "x"}, headers=headers)
    assert answer.status_code == 403
    assert digits_client.get("/api/state").json()["n"] == 0


def test_what_changes_anything_is_json_with_an_origin_and_not_too_large(digits_client):
    del digits_client.headers["origin"]
    asked_for = {"kind": "new-1", "name": "x"}
    assert digits_client.post("/api/do/rename", json=asked_for).status_code == 403
    digits_client.headers["origin"] = ORIGIN
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = digits_client.post("/api/do/rename", content="{}", headers={"content-type": kind})
        assert answer.status_code == 415
    large = {"kind": "new-1", "name": "x" * LARGEST_BODY}
    assert digits_client.post("/api/do/rename", json=large).status_code == 413

    def parts():
        for _ in range(20):
            yield b" " * (LARGEST_BODY // 16)

    answer = digits_client.post("/api/do/rename", content=parts(), headers={"content-type": "application/json"})
    assert answer.status_code == 413
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert digits_client.request(method, "/api/do/undo").status_code == 405
    assert digits_client.get("/api/do/undo").status_code == 405
    assert digits_client.get("/api/state").json()["n"] == 0


def test_every_answer_is_under_a_strict_policy(digits_client):
    answers = [digits_client.get(path) for path in ("/", "/api/state", "/picture/0", "/nothing", "/api/samples/x")]
    answers.append(digits_client.get("/", headers={"host": "evil.example"}))
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
    page = digits_client.get("/").text
    assert "<script>" not in page
    assert "style=" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../page.html",
        "/assets/..%2fpage.html",
        "/assets/%2e%2e/server.py",
        "/assets//etc/passwd",
        "/picture/../../etc/passwd",
        "/photo/..%2f..%2fetc%2fpasswd",
        "/photo/-1",
        "/photo/1e3",
        "/api/export/..%2f..%2frun.json",
        "/api/samples/%00",
    ],
)
def test_no_address_leads_to_another_file(path, digits_client):
    assert digits_client.get(path).status_code in (400, 404)


def test_photos_come_from_the_runs_own_folder_only(photos_run, tmp_path):
    pytest.importorskip("PIL", reason="photos need Pillow: the extra images")
    photos = tmp_path / "photos"
    photos.mkdir()
    picture = webp(np.full((20, 30, 3), 200, dtype=np.uint8))
    (photos / "in.webp").write_bytes(picture)
    (photos / "sub").mkdir()
    (photos / "sub" / "in.webp").write_bytes(picture)
    (tmp_path / "secret.webp").write_bytes(picture)
    (photos / "link.webp").symlink_to(tmp_path / "secret.webp")
    (photos / "inside.webp").symlink_to(photos / "in.webp")
    (photos / "up").symlink_to(tmp_path)
    (photos / "text.txt").write_text("secret")
    (photos / "fake.png").write_text("<script>alert(1)</script>")
    os.mkfifo(photos / "pipe.png")
    live = LiveRun(photos_run)
    live.edited.record["source"]["root"] = str(photos)
    served = Photos(live)
    for name in ("in.webp", "sub/in.webp", "inside.webp"):
        content = served.read(name)
        assert content is not None
        assert content.startswith(b"RIFF")
    outside = [
        "../secret.webp",
        str(tmp_path / "secret.webp"),
        "link.webp",
        "up/secret.webp",
        "text.txt",
        "fake.png",
    ]
    for name in [*outside, "pipe.png", "sub", "", "in.webp\0", "/etc/passwd", "gone.webp", "a" * 5000]:
        assert served.read(name) is None, name


def test_a_photo_that_is_gone_is_shown_small(photos_run, tmp_path):
    with asked(copied(photos_run, tmp_path)) as client:
        answer = client.get("/photo/3")
        assert answer.headers["content-type"] == "image/webp"
        assert answer.content == client.get("/picture/3").content


def test_other_machines_need_a_flag_that_says_what_it_means(digits_run):
    with pytest.raises(InputError, match=r"0\.0\.0\.0 can be reached from other machines.*--allow-remote"):
        opened(digits_run, host="0.0.0.0").__enter__()
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("192.168.0.2")
    assert not is_loopback("example.org")
    assert "[::1]:80" in allowed_hosts("::1", 80)


def test_a_second_studio_of_a_run_is_refused_and_the_first_does_not_stop_the_command_line(digits_run, tmp_path):
    run = copied(digits_run, tmp_path)
    from newkinds.editing import rename

    with opened(run):
        with pytest.raises(InputError, match=r"a studio of .* is open already \(process \d+\)"):
            opened(run).__enter__()
        rename(run, "new-1", "eight")
    with opened(run):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [run.name]


def test_without_its_packages_the_studio_says_what_to_install(digits_run, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(InputError, match=r"pip install 'newkinds\[studio\]'"):
        opened(digits_run).__enter__()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="is not a run folder"):
        opened(tmp_path).__enter__()
