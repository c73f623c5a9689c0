#!/bin/bash
# What a host goes through, in a booted copy of this machine (boot.sh): the agent's package is installed, runs with and
# without further rights, is upgraded, removed and purged; the servers' units run. test_packages.py reads what is said.
cd /
out=/out
until_true() {
  for _ in $(seq 1200); do "$@" && return 0; sleep 0.1; done
  echo "waited in vain for: $*"
  exit 1
}
says() { grep -q "$1" "$2" 2> /dev/null; }
unit() { systemctl show --value -p "$2" "$1"; }
told() { echo "== $1"; }

told installed
dpkg -i /given/dist/*.deb
stat -c '%a %U:%G %n' /etc/warpmeter/* /run/warpmeter/kineto /var/lib/warpmeter
systemctl is-active warpmeter-agent
systemctl is-enabled warpmeter-agent
warpmeter agent --once --json > "$out/once.json" 2> "$out/once.err"
echo "once $?"

told started
mkdir -p /etc/systemd/system/warpmeter-agent.service.d /etc/systemd/system/warpmeter-.service.d
printf '[Service]\nStandardOutput=append:/out/%%N.out\nStandardError=append:/out/%%N.err\n' \
  > /etc/systemd/system/warpmeter-.service.d/log.conf
echo 'WARPMETER_AGENT__OUTPUTS=["stdout","kafka"]' >> /etc/warpmeter/agent.env
echo 'interval_s = 1.5' >> /etc/warpmeter/warpmeter.toml # of [traces], where no such key is
systemctl daemon-reload
systemctl start warpmeter-agent
until_true test "$(unit warpmeter-agent ActiveState)" != activating
until_true says interval_s "$out/warpmeter-agent.err"
sleep 0.5
echo "wrong settings: $(unit warpmeter-agent ActiveState) $(unit warpmeter-agent ExecMainStatus)"
sed -i '$d' /etc/warpmeter/warpmeter.toml
echo '# ours' >> /etc/warpmeter/warpmeter.toml
# A job of another user, as Slurm names it.
setpriv --reuid=65534 --clear-groups env SLURM_JOB_ID=4711 SLURM_PROCID=0 /usr/bin/python3 -c 'import time; time.sleep(600)' &
systemctl start warpmeter-agent
until_true says '"device": "/"' "$out/warpmeter-agent.out"
until_true says '"environ"' "$out/warpmeter-agent.err"
grep -E '^(Uid|Cap|NoNew|Seccomp:)' "/proc/$(unit warpmeter-agent MainPID)/status"

told jobs
drop_in() { cp /usr/share/warpmeter/drop-ins/"$1".conf /etc/systemd/system/warpmeter-agent.service.d/; }
drop_in agent-jobs
drop_in kafka-credentials
echo '{"client.id": "told-by-a-credential"}' | install -m 600 /dev/stdin /etc/warpmeter/credentials/kafka-options-agent
systemctl daemon-reload
before=$(unit warpmeter-agent MainPID)
systemctl restart warpmeter-agent
until_true says '"4711"' "$out/warpmeter-agent.out"
grep -E '^(Uid|Cap|NoNew|Seccomp:)' "/proc/$(unit warpmeter-agent MainPID)/status"
echo "restarted: $([ "$(unit warpmeter-agent MainPID)" != "$before" ] && echo yes)"

told rights
for name in captures stacks perf xids; do drop_in "agent-$name"; done
printf 'WARPMETER_AGENT__STACKS_%s\n' INTERVAL_S=5 SAMPLING_S=1 IDLE=true >> /etc/warpmeter/agent.env
systemctl daemon-reload
: > "$out/warpmeter-agent.err"
systemctl restart warpmeter-agent
until_true says '"source": "py-spy"' "$out/warpmeter-agent.out"
grep -E '^(Uid|Cap|NoNew|Seccomp:)' "/proc/$(unit warpmeter-agent MainPID)/status"

told upgraded
before=$(unit warpmeter-agent MainPID)
dpkg -i /given/dist/*.deb
echo "restarted: $([ "$(unit warpmeter-agent MainPID)" != "$before" ] && echo yes) $(unit warpmeter-agent ActiveState)"
tail -n 1 /etc/warpmeter/warpmeter.toml

if [ -d /site ]; then
  told servers
  mkdir -p /opt/warpmeter-server/bin
  printf '#!/usr/bin/python3\nfrom warpmeter.__main__ import main\nmain()\n' > /opt/warpmeter-server/bin/warpmeter
  chmod 755 /opt/warpmeter-server/bin/warpmeter
  echo 'PYTHONPATH=/src/src:/site' > /etc/warpmeter/server.env
  cp /src/deploy/systemd/warpmeter-{ingest@,scheduler,web}.service /etc/systemd/system/
  for part in ingest@ scheduler web; do
    install -D -t "/etc/systemd/system/warpmeter-$part.service.d" /src/deploy/systemd/drop-ins/store-credentials.conf
    echo "http://warpmeter_writer:hidden-${part%@}@127.0.0.1:8123" |
      install -m 600 /dev/stdin "/etc/warpmeter/credentials/store-dsn-${part%@}"
  done
  systemctl daemon-reload
  systemctl stop warpmeter-agent
  servers=(warpmeter-web warpmeter-ingest@9702 warpmeter-scheduler)
  systemctl start "${servers[@]}"
  for port in 9702 9704; do until_true curl -s -o /dev/null "http://127.0.0.1:$port/metrics"; done
  until_true curl -s -o "$out/page" http://127.0.0.1:8080/
  for name in "${servers[@]}"; do
    grep -E '^(CapBnd|Seccomp:)' "/proc/$(unit "$name" MainPID)/status" | tr '\n' ' '
    tr '\0' '\n' < "/proc/$(unit "$name" MainPID)/environ" | grep -c hidden
    sed 's/.*hidden-\(.*\)@.*/login of \1/' "/run/credentials/$name.service/store-dsn"
    echo "$name: $(unit "$name" ActiveState) $(unit "$name" NRestarts)"
  done
  systemctl stop "${servers[@]}"
  for name in "${servers[@]}"; do echo "$name: $(unit "$name" ActiveState) $(unit "$name" ExecMainStatus)"; done
  rm /etc/systemd/system/warpmeter-*.service && systemctl daemon-reload
  systemctl start warpmeter-agent
fi

told removed
touch /var/lib/warpmeter/spool/kept
dpkg -r warpmeter-agent
echo "unit: $(unit warpmeter-agent ActiveState) $(unit warpmeter-agent LoadState)"
ls -d /opt/warpmeter /usr/bin/warpmeter /etc/warpmeter/warpmeter.toml /var/lib/warpmeter/spool/kept 2> /dev/null

told purged
mkdir -p /var/lib/warpmeter/traces && touch /var/lib/warpmeter/traces/of-the-server
dpkg -P warpmeter-agent
ls -d /etc/warpmeter/* /var/lib/warpmeter/* 2> /dev/null
kill %1
