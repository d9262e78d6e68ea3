package config_test

import (
	"errors"
	"fmt"

	"authgate/gateway/config"
)

func ExampleParse() {
	cfg, err := config.Parse("/etc/authgate/config.yaml", []byte(`
public_url: https://Gateway.example.org:443
accounts: {users: [{username: alice, password_hash: "$2a$10$ZfE0T3..u9gUV6J1cS5zbe6hj4Tb4mWNgVw7mXhkC.Pct2EyJ4YIy", roles: [admin]}]}
upstreams: {wiki: {url: http://127.0.0.1:9000}}
routes: [{match: wiki.example.org/, upstream: wiki, auth: [session], policy: {roles: [admin]}}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.PublicURL, cfg.Session.Lifetime, cfg.DataDir)
	fmt.Println(cfg.Hosts()[:2])
	fmt.Println(cfg.Accounts.Users[0].PasswordHash)
	// Output:
	// https://gateway.example.org 1h0m0s /etc/authgate/data
	// [gateway.example.org wiki.example.org]
	// [redacted]
}

// The error of Parse and Load contains all mistakes, with their places.
func ExampleDiagnostics() {
	_, err := config.Parse("config.yaml", []byte(`limits: {login_failures: 0}
routes:
  - {match: /, upstream: wiki, auth: [session]}
`))
	diagnostics, _ := errors.AsType[config.Diagnostics](err)
	for _, d := range diagnostics {
		fmt.Println(d)
	}
	// Output:
	// config.yaml:1:26: limits.login_failures: must be at least 1; with 0 no user could sign in
	// config.yaml:3:26: routes[0].upstream: there is no upstream "wiki"; there are no upstreams
	// config.yaml:3:39: routes[0].auth[0]: session has no users; give accounts.users or accounts.file
}
