# postinst configure OLD-VERSION, empty for the first installation.
[ "$1" = configure ] || exit 0
add_user
refresh
if [ -n "$2" ]; then
	restart
	exit 0
fi
for path in /etc/authgate /etc/authgate/config.yaml /etc/authgate/accounts.yaml; do
	[ ! -e "$path" ] || chgrp authgate "$path"
done
welcome
