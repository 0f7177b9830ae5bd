package entry

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

func BenchmarkCheck(b *testing.B) {
	d, a := door(b, Options{}), activity(1, 1)
	token := admit(b, d, a, "ann", start)
	b.ReportAllocs()
	for b.Loop() {
		d.Check(a, "ann", token, false, start)
	}
}

func BenchmarkChallenge(b *testing.B) {
	d, a := door(b, Options{}), activity(1, 1)
	b.ReportAllocs()
	for b.Loop() {
		d.Challenge(a, "ann", 0, start)
	}
}

func BenchmarkAdmitProved(b *testing.B) {
	d, a := door(b, Options{}), activity(1, 1)
	proof, _ := prove(b, d, a, "ann", start)
	b.ReportAllocs()
	for b.Loop() {
		d.Admit(a, "ann", proof, true, start)
	}
}

// Nothing but a token that was given is one, whatever it looks like.
func FuzzToken(f *testing.F) {
	d, a := door(f, Options{}), activity(1, 1)
	nonce := Nonce{1} // Fuzzing has several processes, which must agree on what was given.
	given := d.o.Ring.sign(pass{run: a.RunID(), given: start, life: time.Minute, nonce: nonce, buyer: buyerTag(nonce[:], "ann")}, start)
	f.Add(given)
	f.Add(given[:len(given)-1] + "A")
	f.Add(strings.Repeat("A", tokenLength))
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		if _, v, ref := d.Check(a, "ann", token, false, start); v == Good && token != given || (ref == nil) != (v == Good) {
			t.Fatalf("%q: %v, %v", token, v, ref)
		}
	})
}

// Nothing but the solution of a challenge that was given counts, and it once, however it is written.
func FuzzProof(f *testing.F) {
	d, a := door(f, Options{}), activity(1, 1)
	key := d.o.Ring.signing(start) // Fuzzing has several processes, which must agree on what was given.
	terms := terms{expires: start, key: key.tag, run: a.RunID(), nonce: strings.Repeat("1f", NonceBytes)}
	terms.buyer = proofTag(terms.nonce, "ann")
	hash := work(terms.salt(), 731)
	signature := key.proof.sum(hash[:], terms.salt())
	s := solution{algorithm, hex.EncodeToString(hash[:]), 731, terms.salt(), hex.EncodeToString(signature[:])}
	proof := write(s)
	if _, _, ref := d.Admit(a, "ann", proof, true, start); ref != nil {
		f.Fatal(ref)
	}
	raw, _ := base64.StdEncoding.DecodeString(proof)
	f.Add(raw)
	f.Add([]byte(splice(s)))
	f.Add([]byte(`{"algorithm":"SHA-256","salt":"x?expires=1&key=1&activity=1&run=1&buyer=&"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, proof := range []string{string(raw), base64.StdEncoding.EncodeToString(raw)} {
			if token, v, ref := d.Admit(a, "ann", proof, true, start); ref == nil || v == Good || token.Text != "" {
				t.Fatalf("%q: %v", raw, v)
			}
		}
	})
}

// What is read of a salt is what would be written into it.
func FuzzTerms(f *testing.F) {
	f.Add("00?expires=1&key=1&activity=1&run=1&buyer=&")
	f.Add("?expires=-1&key=0001&activity=+1&run=1&buyer=&")
	f.Add("x?expires=9223372036854775807&key=ffffffff&activity=1&run=1&buyer=a&b&")
	f.Fuzz(func(t *testing.T, salt string) {
		if terms, ok := readTerms(salt); ok && terms.salt() != salt {
			t.Fatalf("%q is read as %q", salt, terms.salt())
		}
	})
}
