package main

// readers read the log of the gateway, and ban addresses.
var readers = []row{
	{name: "fail2ban", needs: []string{"fail2ban-server", "fail2ban-regex"},
		version: version{"fail2ban-server --version", ""},
		tries: []try{
			{"its filter line by line", "TestBans"},
			{"its server with the jails of the package bans who guesses and who is refused, no other", "TestFail2banServer"},
		}},
	{name: "CrowdSec", needs: []string{"crowdsec", "cscli"},
		version: version{"cscli version", `version: v?(\S+)`},
		tries: []try{
			{"the parser and scenarios of the package ban who guesses and who is refused, no other", "TestCrowdSec"},
			{"from lines of the journal", "TestCrowdSec/syslog"},
		}},
}
