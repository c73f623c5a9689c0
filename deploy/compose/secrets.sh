#!/bin/sh
# Makes the secrets of compose.yaml, once: a folder `secrets` beside it, which only its owner may enter. What is there
# stays; remove a file to have it made anew, the others that hold the same password as well.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
cd secrets

word() { [ -s "$1" ] || od -An -vN24 -tx1 /dev/urandom | tr -d ' \n' > "$1"; }
sha256() { printf %s "$(cat "$1")" | sha256sum | cut -d' ' -f1; }

for name in store_password reader_password grafana_admin web_session web_operator web_viewer; do word "$name"; done
rm -f store_dsn reader_dsn clickhouse_users.xml
printf 'http://warpmeter:%s@clickhouse:8123' "$(cat store_password)" > store_dsn
printf 'http://reader:%s@clickhouse:8123' "$(cat reader_password)" > reader_dsn
cat > clickhouse_users.xml <<EOF
<clickhouse>
  <profiles>
    <reader><readonly>2</readonly></reader>
  </profiles>
  <users>
    <warpmeter>
      <password_sha256_hex>$(sha256 store_password)</password_sha256_hex>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <access_management>1</access_management>
    </warpmeter>
    <reader>
      <password_sha256_hex>$(sha256 reader_password)</password_sha256_hex>
      <networks><ip>::/0</ip></networks>
      <profile>reader</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT SELECT, SHOW ON warpmeter.*</query>
        <query>GRANT SELECT ON system.*</query>
      </grants>
    </reader>
  </users>
</clickhouse>
EOF
# Containers read them under users of their own; the folder keeps everybody else out.
chmod 0444 ./*
echo "secrets are in $(pwd)"
