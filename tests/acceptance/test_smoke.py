from tests.acceptance.service import Service, User, tone


def test_smoke(shelf: Service, user: User, tmp_path):
    job = user.upload(tone(tmp_path))
    assert user.status(job)["status"] == "uploaded"
    assert shelf.job(job)["state"] == "uploaded"
    assert any("recording accepted" in line["message"] for line in shelf.logged())
    assert shelf.metrics()['transcriber_input_up{input="http"}'] == 1
