package password

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// cheapArgon2id returns an argon2id hash that costs next to nothing.
func cheapArgon2id(password string) string {
	h := Hash{memory: 8, passes: 1, lanes: 1, salt: random(16), key: random(32)}
	h.key = h.derive(password)
	return h.phc()
}

// cheapBcrypt returns a bcrypt hash of the lowest cost.
func cheapBcrypt(tb testing.TB, password string) string {
	tb.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		tb.Fatal(err)
	}
	return string(h)
}

func parsed(tb testing.TB, s string) Hash {
	tb.Helper()
	h, err := Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"päss wörd", strings.Repeat("x", maxPassword)} {
		first, err := New(password)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(first, "$argon2id$v=19$m=19456,t=2,p=1$") {
			t.Errorf("got %s, want other parameters", first)
		}
		h := parsed(t, first)
		if len(h.salt) != 16 || len(h.key) != 32 {
			t.Errorf("salt of %d and key of %d bytes, want 16 and 32", len(h.salt), len(h.key))
		}
		if !h.Verify(password) || h.Verify(password+"x") || h.Verify("") {
			t.Errorf("the hash does not match %q alone", password)
		}
		second, err := New(password)
		if err != nil || first == second {
			t.Errorf("hashed twice: equal hashes, or error %v", err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, password := range map[string]string{
		"empty":    "",
		"too long": strings.Repeat("x", maxPassword+1),
		"no UTF-8": "caf\xe9",
	} {
		if h, err := New(password); err == nil {
			t.Errorf("%s: got %s, want an error", name, h)
		}
	}
}

// The argon2id hashes are those of the reference implementation's own test,
// the bcrypt ones those of the jBCrypt test suite and of Apache's manual.
func TestKnownHashes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ password, hash string }{
		{"password", "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"},
		{"password", "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc"},
		{"myPassword", "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"},
		{"a", "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe"},
		{"abc", "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"},
		{"abc", "$2b$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i"},
	} {
		h := parsed(t, c.hash)
		if !h.Verify(c.password) {
			t.Errorf("%s does not match %q", c.hash, c.password)
		}
		if h.Verify(c.password+" ") || h.Verify(strings.ToUpper(c.password)) || h.Verify("") {
			t.Errorf("%s matches another password than %q", c.hash, c.password)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const salt, key = "c29tZXNhbHQ", "nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	const bcrypt53 = "c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
	for _, c := range []struct{ name, hash, want string }{
		{"empty", "", "not a supported password hash"},
		{"clear text", "wonderland", "not a supported password hash"},
		{"MD5", "$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/", "not a supported password hash"},
		{"argon2i", "$argon2i$v=19$m=256,t=2,p=1$" + salt + "$" + key, "not a supported password hash"},
		{"no version", "$argon2id$m=256,t=2,p=1$" + salt + "$" + key, "is it cut off"},
		{"old version", "$argon2id$v=16$m=256,t=2,p=1$" + salt + "$" + key, "v=19"},
		{"no key", "$argon2id$v=19$m=256,t=2,p=1$" + salt, "is it cut off"},
		{"empty key", "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$", "0 bytes, want 16 to 64"},
		{"more parts", "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + key + "$", "is it cut off"},
		{"other order", "$argon2id$v=19$t=2,m=256,p=1$" + salt + "$" + key, "in this order"},
		{"more parameters", "$argon2id$v=19$m=256,t=2,p=1,keyid=a$" + salt + "$" + key, "canonical"},
		{"leading zero", "$argon2id$v=19$m=0256,t=2,p=1$" + salt + "$" + key, "canonical"},
		{"plus sign", "$argon2id$v=19$m=+256,t=2,p=1$" + salt + "$" + key, ""},
		{"too little memory", "$argon2id$v=19$m=15,t=2,p=2$" + salt + "$" + key, "m is 15, want 16"},
		{"too much memory", "$argon2id$v=19$m=1048577,t=2,p=1$" + salt + "$" + key, "m is 1048577"},
		{"memory overflows", "$argon2id$v=19$m=4294967552,t=2,p=1$" + salt + "$" + key, "within their limits"},
		{"no passes", "$argon2id$v=19$m=256,t=0,p=1$" + salt + "$" + key, "t is 0"},
		{"many passes", "$argon2id$v=19$m=256,t=65,p=1$" + salt + "$" + key, "t is 65"},
		{"no lanes", "$argon2id$v=19$m=256,t=2,p=0$" + salt + "$" + key, "p is 0"},
		{"many lanes", "$argon2id$v=19$m=1024,t=2,p=65$" + salt + "$" + key, "p is 65"},
		{"lanes overflow", "$argon2id$v=19$m=256,t=2,p=257$" + salt + "$" + key, "within their limits"},
		{"short salt", "$argon2id$v=19$m=256,t=2,p=1$c2FsdHNhbA$" + key, "salt has 7 bytes"},
		{"long salt", "$argon2id$v=19$m=256,t=2,p=1$" + strings.Repeat("AAAA", 22) + "$" + key, "salt has 66 bytes"},
		{"short key", "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + strings.Repeat("AAAA", 5), "hash has 15 bytes"},
		{"long key", "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + strings.Repeat("AAAA", 22), "hash has 66 bytes"},
		{"padding", "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + key + "=", "base64"},
		{"line break", "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + key + "\n", "canonical"},
		{"stray bits", "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHR$" + key, "canonical"},
		{"bcrypt of the broken kind", "$2x$05$" + bcrypt53, "want $2a$, $2b$ or $2y$"},
		{"bcrypt without kind", "$2$05$" + bcrypt53, "want $2a$, $2b$ or $2y$"},
		{"bcrypt cut off", "$2y$05$" + bcrypt53[1:], "cut off"},
		{"bcrypt with a tail", "$2y$05$" + bcrypt53 + "\n", "cut off"},
		{"bcrypt too cheap", "$2y$03$" + bcrypt53, "cost is 03"},
		{"bcrypt too costly", "$2y$21$" + bcrypt53, "cost is 21"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, err := Parse(c.hash)
			if err == nil {
				t.Fatalf("got %+v, want an error", h)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want it to say %q", err, c.want)
			}
			if c.hash != "" && strings.Contains(err.Error(), c.hash) {
				t.Errorf("%q quotes what may be a secret", err)
			}
			if h.Verify("") || h.Verify("password") {
				t.Error("what is returned with the error matches a password")
			}
		})
	}
}

// Not parallel: it counts allocations, which follow the work that is done.
func TestOverlongPasswordsCostTheSameWork(t *testing.T) {
	for name, c := range map[string]struct {
		hash    Hash
		longest int
	}{
		"argon2id": {parsed(t, cheapArgon2id("secret")), maxPassword},
		"bcrypt":   {parsed(t, cheapBcrypt(t, "secret")), maxBcryptPassword},
	} {
		work := func(length int) float64 {
			password := strings.Repeat("x", length)
			return testing.AllocsPerRun(5, func() { c.hash.Verify(password) })
		}
		want := work(c.longest)
		if want == 0 {
			t.Fatalf("%s: no work at all", name)
		}
		for _, length := range []int{c.longest + 1, 64 << 10} {
			// Half, for what the runtime allocates meanwhile: a check that
			// gives up early allocates next to nothing.
			if got := work(length); got < want/2 {
				t.Errorf("%s: %d bytes cost %v allocations, %d bytes %v", name, length, got, c.longest, want)
			}
		}
	}
}

// A password that an algorithm would truncate or confuse with another never
// matches.
func TestVerifyTakesTheWholePassword(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, test := range map[string]struct {
		hash     Hash
		password string
		want     bool
	}{
		"bcrypt, longest":          {parsed(t, cheapBcrypt(t, x(72))), x(72), true},
		"bcrypt, longer":           {parsed(t, cheapBcrypt(t, x(72))), x(73), false},
		"bcrypt, no NUL":           {parsed(t, cheapBcrypt(t, "ab")), "ab", true},
		"bcrypt, NUL":              {parsed(t, cheapBcrypt(t, "ab")), "ab\x00ab", false}, // the same to bcrypt
		"argon2id, longest":        {parsed(t, cheapArgon2id(x(maxPassword))), x(maxPassword), true},
		"argon2id, longer":         {parsed(t, cheapArgon2id(x(maxPassword))), x(maxPassword + 1), false},
		"argon2id, a foreign hash": {parsed(t, cheapArgon2id(x(maxPassword+1))), x(maxPassword + 1), false},
		"zero hash":                {Hash{}, "x", false},
		"zero hash, empty":         {Hash{}, "", false},
	} {
		if got := test.hash.Verify(test.password); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestDecoyCostsTheSame(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		cheapArgon2id("secret"),
		cheapBcrypt(t, "secret"),
		"$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
	} {
		h := parsed(t, s)
		decoy := h.Decoy()
		again := parsed(t, decoy.encoded)
		if again.Cost() != h.Cost() || decoy.Cost() != h.Cost() || len(again.salt) != len(h.salt) || len(again.key) != len(h.key) {
			t.Errorf("the decoy of %s is %s, which costs something else", s, decoy.encoded)
		}
		if decoy.Verify("secret") {
			t.Errorf("the decoy of %s matches its password", s)
		}
		if h.Decoy().encoded == decoy.encoded {
			t.Errorf("two decoys of %s are equal", s)
		}
	}
}

func TestCostTellsParametersApart(t *testing.T) {
	t.Parallel()
	const tail = "$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	const bcrypt53 = "c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
	seen := make(map[string]string)
	for _, s := range []string{
		"$argon2id$v=19$m=256,t=2,p=1" + tail,
		"$argon2id$v=19$m=257,t=2,p=1" + tail,
		"$argon2id$v=19$m=256,t=3,p=1" + tail,
		"$argon2id$v=19$m=256,t=2,p=2" + tail,
		"$2y$05$" + bcrypt53,
		"$2y$06$" + bcrypt53,
	} {
		cost := parsed(t, s).Cost()
		if other := seen[cost]; other != "" {
			t.Errorf("%s and %s have the cost %s", s, other, cost)
		}
		seen[cost] = s
	}
	if a, b := parsed(t, "$2a$05$"+bcrypt53).Cost(), parsed(t, "$2y$05$"+bcrypt53).Cost(); a != b {
		t.Errorf("kinds of bcrypt do the same work, got %s and %s", a, b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4")
	f.Add("$argon2id$v=19$m=1048576,t=64,p=64$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=8, t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC")
	f.Add("$2a$20$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$$")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := Parse(s)
		if err != nil {
			if h.encoded != "" || h.Cost() != (Hash{}).Cost() {
				t.Errorf("%q: an error together with a hash", s)
			}
			return
		}
		if h.encoded != s {
			t.Errorf("%q encodes as %q", s, h.encoded)
		}
		if h.bcrypt > 0 {
			if cost, err := bcrypt.Cost([]byte(s)); err != nil || cost != h.bcrypt || cost < 4 || cost > 20 {
				t.Errorf("%q: cost %d, bcrypt says %d, %v", s, h.bcrypt, cost, err)
			}
			return
		}
		if h.phc() != s {
			t.Errorf("%q encodes as %q", s, h.phc())
		}
		if h.memory > 1<<20 || h.memory < 8*uint32(h.lanes) || h.passes-1 > 63 || h.lanes-1 > 63 ||
			len(h.salt) < 8 || len(h.salt) > 64 || len(h.key) < 16 || len(h.key) > 64 {
			t.Errorf("%q is out of bounds", s)
		}
		decoy, err := Parse(h.Decoy().encoded)
		if err != nil || decoy.Cost() != h.Cost() {
			t.Errorf("the decoy of %q does not cost the same: %v", s, err)
		}
	})
}

func BenchmarkVerifyDefaultHash(b *testing.B) {
	hash := Unmatched()
	b.ReportAllocs()
	for b.Loop() {
		hash.Verify("wonderland")
	}
}

func TestHashDoesNotPrint(t *testing.T) {
	t.Parallel()
	hash, err := Parse(cheapArgon2id("secret"))
	if err != nil {
		t.Fatal(err)
	}
	in := struct{ Hash Hash }{hash}
	encoded, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("hash", "hash", hash, "in", in)
	text := fmt.Sprintf("%v %+v %#v %s %x %d %v %+v %#v", hash, hash, hash, hash, hash, hash, in, in, in) + string(encoded) + logged.String()
	for _, part := range []string{hash.Encoded(), "argon2id", fmt.Sprint(hash.salt), fmt.Sprintf("%x", hash.key), fmt.Sprintf("%#v", hash.salt)} {
		if strings.Contains(text, part) {
			t.Errorf("%q shows in %s", part, text)
		}
	}
}
