"""Messages to real servers and stores: what arrives, and what is said of what does not."""

import base64
import hashlib
import hmac
import json
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.receivers import Hook, Mailbox, certificate, http_server, mail_server
from warpmeter.sending import File, Message, Outcome, Refused, Sent, TryAgain, folder, send
from warpmeter.settings import Target

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
MESSAGE = Message(
    id="monday/2026-W48", title="Fleet, week 48: 12 % less waste – Grüße", text="GPU hours: 5,000 <used> & 300 idle",
    html='<html><body><h1>Fleet</h1><img src="cid:trend"></body></html>', inline=(File("trend", "image/png", PIXEL),),
    files=(
        File("report.html", "text/html", b"<p>all</p>"), File("tables/users.csv", "text/csv", b"user,hours\nann,3\n"),
    ),
    link="https://warpmeter.example/reports?id=1", facts={"report": "fleet-weekly", "period": "2026-W48"},
    place="monday/2026-W48",
)  # fmt: skip
SECRETS = ("s3cret-path", "geheimnis", "t0ken-of-mine")


def mail_to(box: Mailbox, **more: Any) -> Target:
    plain = Target(
        "team", "mail", host="127.0.0.1", port=box.port, tls="none", sender="warpmeter <w@warpmeter.example>",
        to=("ann@example.com", "bob@example.com"),
    )  # fmt: skip
    return replace(plain, **more)


def hook_to(hook: Hook, **more: Any) -> Target:
    return Target("hook", "webhook", url=hook.url, **more)


def tell_nothing_secret(outcome: Outcome) -> None:
    assert not any(secret in repr(outcome) for secret in SECRETS), outcome


def test_a_mail_carries_words_page_image_and_tables() -> None:
    with mail_server() as box:
        assert send(mail_to(box), MESSAGE) == Sent()
        send(mail_to(box), MESSAGE)
    first, second = box.mails
    assert first["Subject"] == MESSAGE.title
    assert [str(each) for each in first["To"].addresses] == ["ann@example.com", "bob@example.com"]
    assert first["Message-ID"] == second["Message-ID"], "an attempt again is known as the same mail"
    plain, page = first.get_body(("plain",)), first.get_body(("html",))
    assert plain is not None
    assert page is not None
    assert MESSAGE.text in plain.get_content()
    assert MESSAGE.link in plain.get_content()
    assert page.get_content().strip() == MESSAGE.html
    (image,) = [part for part in first.walk() if part.get_content_type() == "image/png"]
    assert (image["Content-ID"], image.get_content()) == ("<trend>", PIXEL)
    (table,) = first.iter_attachments()
    assert (table.get_filename(), table.get_content()) == ("users.csv", "user,hours\nann,3\n")


def test_what_is_too_large_for_a_mail_is_left_out_and_named() -> None:
    with mail_server() as box:
        assert send(mail_to(box, attach=("*",), attach_bytes=12), MESSAGE) == Sent()
    (mail,) = box.mails
    assert [part.get_filename() for part in mail.iter_attachments()] == ["report.html"]
    for kind in ("plain", "html"):
        body = mail.get_body((kind,))
        assert body is not None
        assert "tables/users.csv" in body.get_content()


def test_a_mail_server_that_refuses_is_told_apart_from_one_that_is_busy() -> None:
    busy, never = "451 try later", "554 no such thing here"
    with mail_server(Mailbox(refusals=[busy, never], unknown={"eve@example.com": "550 unknown"})) as box:
        assert isinstance(send(mail_to(box), MESSAGE), TryAgain)
        refused = send(mail_to(box), MESSAGE)
        assert isinstance(refused, Refused)
        assert "no such thing here" in refused.why
        some = send(mail_to(box, to=("eve@example.com", "ann@example.com")), MESSAGE)
        assert some == Sent("not to eve@example.com (550 unknown)")
        none = send(mail_to(box, to=("eve@example.com",)), MESSAGE)
        assert isinstance(none, Refused)
        assert "look at `to`" in none.why
    assert len(box.mails) == 1
    assert isinstance(send(mail_to(box), MESSAGE), TryAgain), "no server is there any more"


def test_a_mail_server_that_does_not_answer_holds_nobody_up() -> None:
    with mail_server(Mailbox(slowly=True)) as box:
        said = send(mail_to(box, timeout_s=0.5), MESSAGE)
    assert said == TryAgain(f"the mail server 127.0.0.1:{box.port} did not answer in time")


def test_a_greeting_without_an_end_has_no_more_than_its_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with suppress(OSError):
                to, _ = server.accept()
                while True:
                    to.sendall(b"220-still here\r\n")
                    time.sleep(0.01)

        threading.Thread(target=greet, daemon=True).start()
        port = server.getsockname()[1]
        target = Target("t", "mail", host="127.0.0.1", port=port, tls="none", sender="w@x.example", to=("a@x.example",),
                        timeout_s=0.5)  # fmt: skip
        said: list[Outcome] = []
        asking = threading.Thread(target=lambda: said.append(send(target, MESSAGE)), daemon=True)
        asking.start()
        asking.join(60)
    assert said == [TryAgain(f"the mail server 127.0.0.1:{port} did not answer in time")]


def test_mail_with_login_over_tls(tmp_path: Path) -> None:
    authority, context = certificate(tmp_path)
    password = tmp_path / "password"
    password.write_text("geheimnis\n")
    with mail_server(login=("ann", "geheimnis"), starttls=context) as box:
        target = mail_to(
            box, host="localhost", tls="starttls", username="ann", password_file=password, ca_file=authority
        )
        untrusted = send(replace(target, ca_file=None), MESSAGE)
        assert isinstance(untrusted, Refused)
        assert "set ca_file" in untrusted.why
        assert send(target, MESSAGE) == Sent()
        password.write_text("wrong")
        wrong = send(target, MESSAGE)
        assert isinstance(wrong, Refused)
        assert "does not know the user and password" in wrong.why
        missing = send(replace(target, password_file=tmp_path / "none"), MESSAGE)
        assert isinstance(missing, Refused)
        assert "password_file" in missing.why
    assert len(box.mails) == 1


def test_a_webhook_gets_json_that_its_secret_signed() -> None:
    with http_server() as hook:
        target = hook_to(hook, secret="geheimnis", token="t0ken-of-mine", headers={"X-Team": "ml"})
        assert send(target, MESSAGE) == Sent()
    (post,) = hook.posts
    body = json.loads(post.body)
    assert (body["id"], body["title"], body["report"]) == (MESSAGE.id, MESSAGE.title, "fleet-weekly")
    table = body["files"][1]
    assert base64.b64decode(table["content_base64"]) == MESSAGE.files[1].data
    assert "content_base64" not in body["files"][0], "only what `attach` names goes along"
    assert post.headers["idempotency-key"] == MESSAGE.id
    assert (post.headers["x-team"], post.headers["authorization"]) == ("ml", "Bearer t0ken-of-mine")
    signed = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.".encode() + post.body
    expected = base64.b64encode(hmac.new(b"geheimnis", signed, hashlib.sha256).digest()).decode()
    assert post.headers["webhook-signature"] == f"v1,{expected}"


def test_answers_say_whether_it_may_go_later() -> None:
    answers: list[Any] = [
        (429, {"Retry-After": "120"}, b"slow down"), (503, {}, b""), (404, {}, b"no /hook/s3cret-path here"),
        (302, {"Location": "http://127.0.0.1:1/"}, b""), (413, {}, b""), (500, {}, b"t0ken-of-mine is odd"),
    ]  # fmt: skip
    with http_server(Hook(answers=answers)) as hook:
        said = [send(hook_to(hook, token="t0ken-of-mine"), MESSAGE) for _ in range(6)]
    assert said[0] == TryAgain(f"{hook.url.split('/')[2]} answered 429: slow down", 120.0)
    assert [type(each) for each in said[1:]] == [TryAgain, Refused, Refused, Refused, TryAgain]
    assert "attach" in said[4].why  # type: ignore[union-attr]
    for each in said:
        tell_nothing_secret(each)
    assert isinstance(send(hook_to(hook), MESSAGE), TryAgain), "nobody is there any more"


def test_a_server_that_drips_has_no_more_than_its_time() -> None:
    with http_server(Hook(drips=True)) as hook:
        said = send(hook_to(hook, timeout_s=0.5), MESSAGE)
    assert said == TryAgain(f"{hook.url.split('/')[2]} did not answer in time")


def test_a_webhook_over_tls_needs_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    authority, context = certificate(tmp_path)
    with http_server(tls=context) as hook:
        untrusted = send(hook_to(hook), MESSAGE)
        assert isinstance(untrusted, Refused)
        assert "set ca_file" in untrusted.why
        assert send(hook_to(hook, ca_file=authority), MESSAGE) == Sent()
    assert len(hook.posts) == 1


def test_slack_gets_blocks_within_its_limits(tmp_path: Path) -> None:
    where = tmp_path / "url"
    with http_server() as hook:
        where.write_text(hook.url)
        long = replace(MESSAGE, title="t" * 400, text="a<b&c " * 1000)
        assert send(Target("chat", "slack", url_file=where), long) == Sent()
    header, words, link = json.loads(hook.posts[0].body)["blocks"]
    assert (len(header["text"]["text"]), len(words["text"]["text"])) == (150, 3000)
    assert words["text"]["text"].startswith("a&lt;b&amp;c ")
    assert link["text"]["text"] == f"<{MESSAGE.link}|Open it>"


@pytest.mark.parametrize("remote", [False, True], ids=["folder", "object store"])
def test_a_folder_has_all_of_a_message_or_nothing(tmp_path: Path, remote: bool) -> None:
    url = f"memory://reports-{os.getpid()}/of" if remote else str(tmp_path / "deep" / "of")
    target = Target("kept", "folder", url=url)
    sent = send(target, MESSAGE)
    assert isinstance(sent, Sent), sent
    store, root = fsspec.core.url_to_fs(url)
    there = f"{root}/monday/2026-W48"
    assert store.cat_file(f"{there}/tables/users.csv") == MESSAGE.files[1].data
    told = json.loads(store.cat_file(f"{there}/{folder.MANIFEST}"))
    assert [(each["name"], each["bytes"]) for each in told["files"]] == [("report.html", 10), ("tables/users.csv", 17)]
    store.pipe_file(f"{there}/report.html", b"seen by somebody")
    assert isinstance(send(target, MESSAGE), Sent)
    assert store.cat_file(f"{there}/report.html") == b"seen by somebody", "it lies there, and is not written again"
    anew = replace(MESSAGE, id="again", files=MESSAGE.files[:1])
    assert isinstance(send(target, anew), Sent)
    assert store.cat_file(f"{there}/report.html") == b"<p>all</p>"
    assert {name.rpartition("/")[2] for name in store.find(root)} >= {"report.html", "manifest.json"}
    assert not [name for name in store.find(root) if ".part" in name or ".old" in name]


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    target = Target("kept", "folder", url=str(tmp_path / "of"))
    odd = replace(MESSAGE, place="../../job/../x y/..")
    assert isinstance(send(target, odd), Sent)
    assert all(path.is_relative_to(tmp_path / "of") for path in tmp_path.rglob("manifest.json"))
    escaping = send(target, replace(MESSAGE, files=(File("../evil", "text/plain", b""),), place="y"))
    assert isinstance(escaping, Refused)
    assert list((tmp_path / "of").glob("y*")) == []


@pytest.mark.parametrize("place", ["", "jobs/", "/a"])
def test_a_place_that_is_a_folder_of_others_is_refused(tmp_path: Path, place: str) -> None:
    target = Target("t", "folder", url=str(tmp_path))
    assert isinstance(send(target, replace(MESSAGE, id="jobs/1", place="jobs/1")), Sent)
    assert isinstance(send(target, replace(MESSAGE, id=place, place=place)), Refused)
    assert (tmp_path / "jobs" / "1" / "manifest.json").is_file()


def test_a_folder_that_cannot_be_written_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = send(Target("kept", "folder", url=str(tmp_path / "file" / "of")), MESSAGE)
    assert isinstance(said, Refused)
    assert "let the scheduler's user write it" in said.why
    unknown = send(Target("kept", "folder", url="nowhere://geheimnis:geheimnis@bucket"), MESSAGE)
    assert isinstance(unknown, Refused)
    tell_nothing_secret(unknown)


def test_a_full_disk_leaves_nothing_behind_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    opened = os.open

    def on_full_disk(path: Any, flags: int, *more: Any, **named: Any) -> int:
        return opened(full, os.O_WRONLY) if str(path).endswith(".csv") else opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", on_full_disk)
    said = send(Target("kept", "folder", url=str(tmp_path / "of")), MESSAGE)
    assert said == TryAgain(f"{tmp_path / 'of'} could not be written: No space left on device")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _: over.wait(60))
    said = send(Target("kept", "folder", url=str(tmp_path / "of"), timeout_s=0.2), MESSAGE)
    over.set()
    assert said == TryAgain(f"{tmp_path / 'of'} was not written within 0.2 s")


@pytest.mark.parametrize("remote", [False, True], ids=["folder", "object store"])
def test_old_messages_are_removed_whole_and_nothing_else(tmp_path: Path, remote: bool) -> None:
    url = f"memory://pruned-{os.getpid()}/of" if remote else str(tmp_path / "of")
    target, store = Target("kept", "folder", url=url), fsspec.core.url_to_fs(url)[0]
    for place in ("monday/old", "monday/young"):
        assert isinstance(send(target, replace(MESSAGE, id=place, place=place)), Sent)
    root = fsspec.core.url_to_fs(url)[1]
    store.pipe_file(f"{root}/somebody's.txt", b"own")
    assert folder.prune(url, {}, time.time() - 3600) == 0
    manifest = f"{root}/monday/old/{folder.MANIFEST}"
    if remote:
        store.store[manifest].modified = store.store[manifest].created = datetime(2020, 1, 1, tzinfo=UTC)
    else:
        os.utime(manifest, (0, 0))
    assert folder.prune(url, {}, time.time() - 3600) == 1
    left = {name.removeprefix(f"{root}/") for name in store.find(root)}
    assert "somebody's.txt" in left
    assert {name.rpartition("/")[0] for name in left} == {"", "monday/young", "monday/young/tables"}
