"""Apache Kafka as a platform team runs it: TLS everywhere, nobody without a name, nothing allowed that was not granted.

with closing(SecuredKafka(folder)) as kafka:
    Kafka(kafka.bootstrap_servers, options=kafka.scram("agent"))
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.brokers.apache import KafkaCluster, Node
from tests.brokers.issuer import AUDIENCE, Issuer, openssl
from tests.brokers.process import free_ports

ROOT: Final = "root"
"""May do all."""
PASSWORD: Final = "s3cret-of-"
_SECURITY: Final = "org.apache.kafka.common.security"
_OAUTH: Final = f"{_SECURITY}.oauthbearer"
_RULE: Final = "RULE:^CN=([^,]+).*$/$1/"


class Authority:
    """A certificate authority of the test's own: `ca.pem`, and for each name `NAME.pem` and `NAME.key`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.ca = folder, folder / "ca.pem"
        self._subject("ca", "-x509", "-out", str(self.ca), "-days", "2")

    def certificate(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of a name, made at the first call; good for 127.0.0.1, too."""
        made, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        if not made.exists():
            request, extensions = self.folder / f"{name}.csr", self.folder / "extensions"
            extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
            self._subject(name, "-out", str(request))
            signed = ["-CA", str(self.ca), "-CAkey", str(self.folder / "ca.key"), "-CAcreateserial", "-days", "2"]
            openssl("x509", "-req", "-in", str(request), *signed, "-extfile", str(extensions), "-out", str(made))
        return made, key

    def _subject(self, name: str, *rest: str) -> None:
        made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl("req", *made, "-keyout", str(self.folder / f"{name}.key"), "-subj", f"/CN={name}", *rest)


class SecuredKafka(KafkaCluster):
    """One node that takes SCRAM-SHA-512 and OAUTHBEARER on one port (`bootstrap_servers`), client certificates on
    another (`tls_servers`), and asks StandardAuthorizer of each request.

    `users` have SCRAM passwords since before the first start; any name may come by a token of `issuer`, or a
    certificate.
    """

    def __init__(self, folder: Path, users: tuple[str, ...] = ()) -> None:
        self.authority = Authority(folder / "authority")
        self.issuer = Issuer(folder / "issuer")
        self.tls_port = free_ports(1)[0]
        self.jvm = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.jwks.as_uri()}",)
        self.storage = tuple(
            word
            for name in (ROOT, *users)
            for word in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={PASSWORD}{name}]")
        )
        self.client = self.scram(ROOT)
        super().__init__(folder / "kafka")

    @property
    def tls_servers(self) -> str:
        """The `bootstrap.servers` of who has a certificate."""
        return f"127.0.0.1:{self.tls_port}"

    def close(self) -> None:
        """End it and its issuer."""
        super().close()
        self.issuer.close()

    def scram(self, name: str, password: str = "") -> dict[str, str]:
        """librdkafka's options for a user with a password."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.ca),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": password or f"{PASSWORD}{name}",
        }

    def oauth(self, name: str) -> dict[str, str]:
        """librdkafka's options for a client of the issuer."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.ca),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": name,
            "sasl.oauthbearer.client.secret": f"{PASSWORD}{name}",
            "sasl.oauthbearer.token.endpoint.url": self.issuer.url,
        }

    def certificate(self, name: str) -> dict[str, str]:
        """librdkafka's options for who has a certificate of that name; for `tls_servers`."""
        certificate, key = self.authority.certificate(name)
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.ca),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        }

    def properties(self, node: Node) -> dict[str, object]:
        certificate, key = self.authority.certificate("broker")
        store = self.authority.folder / "broker-store.pem"
        store.write_text(key.read_text() + certificate.read_text())
        peers = f"TLS://{self.tls_servers}"
        listeners = f"SASL://{node.address},{peers}"
        oauth, scram = "listener.name.sasl.oauthbearer.sasl", "listener.name.sasl.scram-sha-512.sasl"
        return super().properties(node) | {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{node.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "SASL:SASL_SSL,TLS:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "TLS",
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": _RULE,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.ca,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            f"{scram}.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
            f"{oauth}.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            f"{oauth}.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": self.issuer.jwks.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": self.issuer.url,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": f"User:{ROOT};User:broker",
        }


def as_toml(options: Mapping[str, str]) -> str:
    """Options as the table `[kafka.options]`."""
    lines = (f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in options.items())
    return "[kafka.options]\n" + "".join(lines)


__all__ = ["PASSWORD", "ROOT", "Authority", "SecuredKafka", "as_toml"]
