#!/bin/sh
# Starts Valkey for gateways only. It keeps acknowledged writes and evicts
# nothing. Its one user can do what gateways need with their own keys, list the
# names of all keys, and make Valkey forget scripts.
# The password goes to standard input, so that no process list shows it.
set -eu
password=$(cat /run/secrets/valkey_password)
: "${password:?valkey_password is empty}"
exec valkey-server - <<CONFIGURATION
dir /data
appendonly yes
maxmemory 640mb
maxmemory-policy noeviction
user default off
user authgate on >$password ~authgate:* +@read +@write +@connection +@scripting -@dangerous +role +time +info +cluster|slots +cluster|shards +cluster|nodes
CONFIGURATION
