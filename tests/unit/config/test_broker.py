"""What a broker's URL becomes (rule D2)."""

from __future__ import annotations

import ssl

import pytest
from kombu import Connection

from config.broker import broker_line
from config.errors import BadInput


@pytest.mark.parametrize("url", ["redis://h/0", "rediss://h/0", "redis+socket:///run/broker.sock?virtual_host=0"])
def test_no_redis_option_lets_a_broker_deliver_twice(url: str) -> None:
    options = broker_line(url).options
    assert options["visibility_timeout"] > 3_600
    assert not [name for name in options if name.startswith("retry_on")]


@pytest.mark.parametrize("url", ["amqp://u:p@h//", "pyamqp://h", "redis://h/0"])
def test_without_a_tls_scheme_nothing_is_encrypted_and_the_url_stays(url: str) -> None:
    line = broker_line(url)
    assert (line.url, line.tls) == (url, False)


def test_rabbitmq_confirms_what_is_published() -> None:
    assert broker_line("amqp://h//").options["confirm_publish"] is True


@pytest.mark.parametrize(
    ("query", "trust"),
    [("", ssl.CERT_REQUIRED), ("?ssl_ca_certs=/ca.pem", None), ("?ssl_cert_reqs=none", ssl.CERT_NONE)],
)
def test_a_rediss_url_verifies_the_server_unless_it_says_otherwise(query: str, trust: int | None) -> None:
    """kombu's own default for rediss without parameters is to trust everybody; with a CA redis-py requires one."""
    line = broker_line(f"rediss://u:p@h:6380/0{query}")
    assert Connection(line.url, ssl=line.tls).ssl.get("ssl_cert_reqs") == trust


def test_an_amqps_url_says_its_files_in_the_same_words() -> None:
    line = broker_line("amqps://u:p@h/v?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&ssl_keyfile=/k.pem&heartbeat=5")
    assert line.url == "amqps://u:p@h/v?heartbeat=5"
    assert line.tls == {"ca_certs": "/ca.pem", "certfile": "/c.pem", "keyfile": "/k.pem",
                        "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None}


def test_an_amqps_url_can_waive_the_check() -> None:
    assert broker_line("amqps://h/?ssl_cert_reqs=none").tls == {"cert_reqs": ssl.CERT_NONE}


@pytest.mark.parametrize("scheme", ["rediss", "amqps"])
def test_an_unknown_word_about_trust_is_an_error_that_names_the_known_ones(scheme: str) -> None:
    with pytest.raises(BadInput, match="required, optional nor none"):
        broker_line(f"{scheme}://u:secret@h/0?ssl_cert_reqs=maybe")
