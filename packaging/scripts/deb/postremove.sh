# postrm remove, then postrm purge. The user stays, so that no other one gets its
# number and with it files that are left.
case $1 in
remove)
	refresh
	;;
purge)
	rm -rf /var/lib/authgate
	rm -f /etc/systemd/system/multi-user.target.wants/authgate.service
	rm -f /etc/systemd/system/sockets.target.wants/authgate.socket
	rm -f /etc/systemd/system/sockets.target.wants/authgate-http.socket
	refresh
	;;
esac
