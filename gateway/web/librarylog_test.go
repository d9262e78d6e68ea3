package web

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
)

// TestLibraryLog: a line becomes a record, without what it quotes.
func TestLibraryLog(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"http: TLS handshake error from 192.0.2.7:4711: EOF\n":                                           "http: TLS handshake error from 192.0.2.7:4711: EOF",
		`Unsolicited response received on idle HTTP channel starting with "Set-Cookie: a\"b"; err=<nil>`: `Unsolicited response received on idle HTTP channel starting with "..."; err=<nil>`,
		`got ["a" "b"], and "cut off`:                                                                    `got ["..." "..."], and "..."`,
		`the end is "cut off\`:                                                                           `the end is "..."`,
	} {
		var out bytes.Buffer
		LibraryLog(slog.NewJSONHandler(&out, nil), slog.LevelWarn).Print(line)
		var record map[string]any
		if err := json.Unmarshal(out.Bytes(), &record); err != nil || record["level"] != "WARN" || record["msg"] != want {
			t.Errorf("%q: %v, %v", line, record, err)
		}
	}
	var out bytes.Buffer
	LibraryLog(slog.NewJSONHandler(&out, nil), slog.LevelDebug).Print("of no interest")
	if got := out.String(); got != "" {
		t.Errorf("%q is logged although the level is not", got)
	}
}
