//go:build deps

package authgate

import (
	_ "github.com/coder/websocket"
	_ "github.com/goccy/go-yaml"
	_ "github.com/golang-jwt/jwt/v5"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hashicorp/golang-lru/v2"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/crypto/argon2"
	_ "golang.org/x/net/http/httpguts"
	_ "golang.org/x/sync/singleflight"
	_ "golang.org/x/term"
	_ "modernc.org/sqlite"
)
