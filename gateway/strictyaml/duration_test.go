package strictyaml

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for s, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
		"7d": 7 * day, "+7d": 7 * day, "0d": 0,
		"1d12h": 36 * time.Hour, "1d1h1m1s1ms": day + time.Hour + time.Minute + time.Second + time.Millisecond,
		"1.5d": 36 * time.Hour, "1.d": day, ".5d": 12 * time.Hour, "1.5d1.5h": 37*time.Hour + 30*time.Minute,
		"-1d": -day, "-1d12h": -36 * time.Hour, // which the decoder refuses
		"106751d": 106751 * day, "106751d23h47m16.854775807s": 1<<63 - 1,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "d", ".d", "7", "7D", "7 d", "7d ", "1d12", "1d0", "1d2d", "1d-1h", "1d+1h", "-1d-1h",
		"12h1d", "1h1d1m", "1w", "1e3d", "0x1d", "--1d", "1..5d",
		"106752d", "106751d23h47m16.854775808s", "-106752d", "3000000000d", "99999999999999999999d", "106751d2562047h",
	} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v; want an error", s, got)
		}
	}
}
