package main

// readers read the log of the gateway, and ban addresses.
var readers = []row{
	{name: "fail2ban", needs: []string{"fail2ban-server", "fail2ban-regex",
		"/usr/lib/python3/dist-packages/systemd", "/lib/systemd/systemd-journal-remote"},
		version: version{"fail2ban-server --version", ""},
		tries: []try{
			{"its filter line by line", "TestBans"},
			{"its server with the jails of the package bans who guesses and who is refused, no other",
				"TestFail2banServer/file"},
			{"from the journal", "TestFail2banServer/journal"},
		}},
	{name: "CrowdSec", needs: []string{"crowdsec", "cscli"},
		version: version{"cscli version", `version: v?(\S+)`},
		tries: []try{
			{"the parser and scenarios of the package ban who guesses and who is refused, no other", "TestCrowdSec"},
			{"from lines of the journal", "TestCrowdSec/syslog"},
		}},
}
