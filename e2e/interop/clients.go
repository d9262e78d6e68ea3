package main

// browsers sign users in and show the pages of the gateway.
var browsers = []row{
	{name: "Chromium", needs: []string{"chromium"}, version: version{"chromium --version", ""},
		tries: []try{
			{"sign in and out, cookies, keyboard", "TestBrowser/local_accounts"},
			{"delegated logins", "TestBrowser/delegated"},
			{"other sites", "TestBrowser/other_sites,_SameSite=Lax"},
			{"many hosts", "TestBrowser/many_hosts"},
			{"account page", "TestBrowser/account"},
			{"scripts of other origins", "TestBrowser/api"},
			{"HTTP/3", "TestBrowserHTTP3"},
		}},
	{name: "Firefox", needs: []string{"firefox-esr"}, version: version{"firefox-esr --version", ""},
		tries: []try{
			{"sign in and out over HTTP/2", "TestFirefox/local_accounts"},
			{"delegated logins", "TestFirefox/delegated"},
			{"other sites", "TestFirefox/other_sites"},
			{"passkeys", "TestFirefox/passkeys"},
		}},

	{name: "Safari", never: "only on systems of Apple"},
}

// clients are programs and libraries that send requests.
var clients = []row{
	{name: "curl", needs: []string{"curl"}, version: version{"curl --version", ""}, tries: clientTries("curl")},
	{name: "Wget", needs: []string{"wget"}, version: version{"wget --version", ""}, tries: clientTries("wget")},
	{name: "Requests (Python)", needs: []string{"/usr/lib/python3/dist-packages/requests"},
		version: version{"/usr/bin/python3 -c 'import requests; print(requests.__version__)'", ""},
		tries:   clientTries("requests")},
	{name: "HTTPX (Python)", needs: []string{"/usr/lib/python3/dist-packages/httpx"},
		version: version{"/usr/bin/python3 -c 'import httpx; print(httpx.__version__)'", ""},
		tries:   clientTries("httpx")},
	{name: "net/http (Go)", version: version{"go env GOVERSION", `go(\S+)`}, tries: clientTries("net_http")},
	{name: "fetch (Node.js)", needs: []string{"node"}, version: version{"node --version", ""},
		tries: clientTries("fetch")},
	{name: "Git", needs: []string{"git", "lighttpd"}, version: version{"git --version", ""},
		tries: []try{{"push and clone 50 MiB with an API token", "TestGit"}}},
	{name: "npm", needs: []string{"npm", "./registry/node_modules"}, version: version{"npm --version", ""},
		tries: []try{{"publish and install with an API token", "TestNpm"}}},
}

// clientTries are the tries that each HTTP client must pass.
func clientTries(name string) []try {
	return []try{{"Basic, session, API token, the gateway's authority", "TestClients/" + name}}
}
