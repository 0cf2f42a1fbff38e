"""What a secured broker and its clients know of each other: a certificate, passwords, and who logs in by what."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from hivesink.config.cache import write_atomically
from hivesink.jvm.java import find_java
from jobs.cluster.kdc import HOST, REALM, USERS

PROTOCOL = "SASL_SSL"
SCRAM = "SCRAM-SHA-512"
_LOGIN = {
    SCRAM: 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{secret}";',
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
    f'keyTab="{{keytab}}" principal="{{user}}@{REALM}";',
}


class KafkaLogins:
    """Of one broker, in its `folder`; the first start makes them. `alice` may do all, `bob` nothing."""

    def __init__(self, folder: Path, keytab: Path) -> None:
        self.folder, self._keytab = folder, keytab

    @cached_property
    def secret(self) -> str:
        """The password of each user by SCRAM, of the broker's key and of the trust store."""
        file = self.folder / "secret"
        if not file.exists():
            write_atomically(file, secrets.token_hex(16), mode=0o600)
        return file.read_text(encoding="utf-8")

    def make(self) -> None:
        """A key, its certificate for this machine, which is its own authority, and a trust store of it."""
        store, trusted, authority = (self.folder / name for name in ("server.p12", "trusted.p12", "ca.pem"))
        if authority.exists():
            return
        names = ("-dname", f"CN={HOST}", "-ext", f"san=dns:{HOST},ip:127.0.0.1", "-ext", "bc=ca:true")
        keytool(self.secret, "-genkeypair", "-keyalg", "RSA", "-validity", "3650", *names, "-keystore", str(store))
        write_atomically(authority, keytool(self.secret, "-list", "-rfc", "-keystore", str(store)))
        keytool(self.secret, "-importcert", "-noprompt", "-file", str(authority), "-keystore", str(trusted))

    def scram(self) -> tuple[str, ...]:
        """What Kafka's storage tool puts into a new broker."""
        users = (f"{SCRAM}=[name={user},password={self.secret}]" for user in USERS)
        return tuple(word for user in users for word in ("--add-scram", user))

    def broker(self) -> Mapping[str, str]:
        """The broker's own properties."""
        return {
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{PROTOCOL}:{PROTOCOL}",
            "inter.broker.listener.name": PROTOCOL,
            "sasl.enabled.mechanisms": ",".join(_LOGIN),
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            **{
                f"listener.name.{PROTOCOL.lower()}.{name.lower()}.sasl.jaas.config": self._login(f"kafka/{HOST}", name)
                for name in _LOGIN
            },
            "ssl.keystore.location": str(self.folder / "server.p12"),
            "ssl.keystore.password": self.secret,
            **self._trust(),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The controller's listener has no login.
            "super.users": f"User:ANONYMOUS;User:kafka;User:{USERS[0]}",
        }

    def client(self, user: str = USERS[0], mechanism: str = SCRAM) -> dict[str, str]:
        """The properties of a client of Kafka's own."""
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": mechanism,
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": self._login(user, mechanism),
            **self._trust(),
        }

    def librdkafka(self) -> Mapping[str, str]:
        """The same for the C library, which has no Kerberos."""
        login = {"sasl.mechanism": SCRAM, "sasl.username": USERS[0], "sasl.password": self.secret}
        return {"security.protocol": PROTOCOL, "ssl.ca.location": str(self.folder / "ca.pem"), **login}

    def _trust(self) -> dict[str, str]:
        return {
            "ssl.truststore.location": str(self.folder / "trusted.p12"),
            "ssl.truststore.password": self.secret,
        }

    def _login(self, user: str, mechanism: str) -> str:
        return _LOGIN[mechanism].format(user=user, secret=self.secret, keytab=self._keytab)


def keytool(password: str, *arguments: str) -> str:
    """Java's tool, whose output is returned; a runtime without the program has it too."""
    command = (find_java().program, "-m", "java.base/sun.security.tools.keytool.Main", *arguments)
    # Command lines are for all to see.
    asked, environment = ("-storepass:env", "STORE_PASSWORD"), {**os.environ, "STORE_PASSWORD": password}
    return subprocess.run((*command, *asked), check=True, capture_output=True, text=True, env=environment).stdout
