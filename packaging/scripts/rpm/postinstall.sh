# %post with the number of installed versions.
refresh
if [ "$1" -gt 1 ]; then
	restart
else
	welcome
fi
