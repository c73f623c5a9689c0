# shellcheck shell=bash
# What prolog, epilog and health share; they run as root on a node. Nothing here waits for anything.

export PATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin} # Slurm gives a prolog none
WARPMETER_SOCKET=${WARPMETER_SOCKET:-/run/warpmeter/kineto/dynolog}

# Whether an agent listens: the kernel lists who does. No process is started, and no agent asked that may hang.
agent_listens() {
  local line
  while IFS= read -r line; do
    [[ $line == *" $WARPMETER_SOCKET" ]] && return 0
  done < /proc/net/unix
  return 1
}

# Into the node's log; at most two seconds, where nobody takes it.
say() {
  timeout 2 logger --tag warpmeter --priority daemon.warning -- "$*"
}
