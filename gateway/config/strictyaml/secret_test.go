package strictyaml

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"authgate/gateway/logtest"
)

// A secret, alone or in another value, is not printed, logged or encoded: neither
// as text nor as the numbers of its bytes.
func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	s := Secret("sesame")
	word := []byte(s.Reveal())
	forms := []string{
		"sesame", fmt.Sprintf("%x", word), strings.Trim(fmt.Sprint(word), "[]"), strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", word), "[]byte"), "{}"),
	}
	for _, value := range []any{s, &s, []Secret{s}, map[string]Secret{"x": s}, struct{ Name, Password any }{"a", s}} {
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Errorf("%T as JSON: %v", value, err)
		}
		log := &logtest.Buffer{}
		for _, handler := range []slog.Handler{slog.NewJSONHandler(log, nil), slog.NewTextHandler(log, nil)} {
			slog.New(handler).Info("secret", "value", value, slog.Group("group", "in", value))
		}
		shown := fmt.Sprintf("%v %+v %#v %s %q %x %X", value, value, value, value, value, value, value) + string(encoded) + log.String()
		for _, form := range forms {
			if strings.Contains(strings.ToLower(shown), form) {
				t.Errorf("%T shows a secret as %s: %s", value, form, shown)
			}
		}
	}
	if Secret("").String() != "" {
		t.Error("no secret prints as one")
	}
}
