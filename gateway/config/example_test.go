package config_test

import (
	"fmt"

	"authgate/gateway/config"
)

func ExampleParse() {
	cfg, err := config.Parse("/etc/authgate/config.yaml", []byte(`
public_url: https://Gateway.example.org:443
accounts: {users: [{username: alice,
  password_hash: "$2a$10$ZfE0T3..u9gUV6J1cS5zbe6hj4Tb4mWNgVw7mXhkC.Pct2EyJ4YIy", roles: [admin]}]}
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
