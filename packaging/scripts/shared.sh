# add_user makes the user that the unit names.
add_user() {
	if command -v systemd-sysusers >/dev/null; then
		echo '@SYSUSERS@' | systemd-sysusers --replace=/usr/lib/sysusers.d/authgate.conf -
	elif ! getent passwd authgate >/dev/null; then
		useradd --system --user-group --home-dir /var/lib/authgate --no-create-home --shell /usr/sbin/nologin authgate
	fi
}

# refresh lets systemd read the unit again.
refresh() {
	[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
}

# variables prints the environment of a process as lines for a shell.
variables() {
	grep -z '^[A-Za-z_][A-Za-z0-9_]*=' "/proc/$1/environ" | sed -z "s/'/'\\\\''/g; s/=/='/; s/^/export /; s/\$/'/" | tr '\000' '\n'
}

# restart restarts a gateway that runs, so that the new version serves. Its sockets stay open. If the new
# version refuses the configuration, with the variables of the running gateway, the
# old one runs on.
restart() {
	[ -d /run/systemd/system ] && systemctl is-active --quiet authgate.service || return 0
	pid=$(systemctl show --property=MainPID --value authgate.service)
	# The gateway can write its environment, so root does not use it. It may have secrets, so it is no argument, which
	# every user can see.
	if {
		variables "$pid"
		echo 'exec /usr/bin/authgate validate --config /etc/authgate/config.yaml </dev/null'
	} | runuser -u authgate -- env -i /bin/sh >/dev/null; then
		if command -v deb-systemd-invoke >/dev/null; then
			deb-systemd-invoke restart authgate.service || true
		else
			systemctl restart authgate.service || true
		fi
		return 0
	fi
	echo "authgate: this version refuses the configuration, so the running gateway was not restarted." >&2
	echo "authgate: correct it, then run: systemctl restart authgate" >&2
}

# welcome says what to do first.
welcome() {
	echo "authgate: edit /etc/authgate/config.yaml and accounts.yaml, then run: systemctl enable --now authgate"
}

