#!/bin/sh
# Starts Valkey for gateways alone: it keeps what it acknowledged, evicts
# nothing, and knows one user, who may do what gateways do with their own keys,
# see the names of all keys, and forget scripts.
# The password goes to standard input, so that no list of processes shows it.
set -eu
password=$(cat /run/secrets/valkey_password)
: "${password:?valkey_password is empty}"
exec valkey-server - <<CONFIGURATION
dir /data
appendonly yes
maxmemory 640mb
maxmemory-policy noeviction
user default off
user authgate on >$password ~authgate:* +@read +@write +@connection +@scripting -@dangerous +role +time +cluster|slots +cluster|shards +cluster|nodes
CONFIGURATION
