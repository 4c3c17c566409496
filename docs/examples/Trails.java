package org.example.trails;

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.InflaterInputStream;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.http.SessionCreationPolicy;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.core.DelegatingOAuth2TokenValidator;
import org.springframework.security.oauth2.core.OAuth2Error;
import org.springframework.security.oauth2.core.OAuth2TokenValidator;
import org.springframework.security.oauth2.core.OAuth2TokenValidatorResult;
import org.springframework.security.oauth2.jose.jws.SignatureAlgorithm;
import org.springframework.security.oauth2.jwt.*;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class Trails {
  static final String ISSUER = "https://id.example.org", API = "https://api.example.org";

  public static void main(String[] args) {
    SpringApplication.run(Trails.class, args);
  }

  @GetMapping("/trails")
  Map<String, String> trails(@AuthenticationPrincipal Jwt token) {
    return Map.of("sub", token.getSubject());
  }

  @Bean
  SecurityFilterChain security(HttpSecurity http) throws Exception {
    return http
        .authorizeHttpRequests(r -> r
            .requestMatchers("/trails").hasAuthority("SCOPE_trails.read")
            .requestMatchers("/error").permitAll()
            .anyRequest().denyAll())
        .sessionManagement(s -> s.sessionCreationPolicy(SessionCreationPolicy.STATELESS))
        .oauth2ResourceServer(o -> o.jwt(Customizer.withDefaults()))
        .build();
  }

  @Bean
  JwtDecoder accessTokens() {
    OAuth2TokenValidator<Jwt> rules = JwtValidators.createAtJwtValidator().issuer(ISSUER).audience(API)
        .validators(v -> v.put("client_id", new JwtClaimValidator<String>("client_id", Objects::nonNull))) // any client
        .build();
    return decoder(new DelegatingOAuth2TokenValidator<Jwt>(rules, new StatusLists()));
  }

  static JwtDecoder decoder(OAuth2TokenValidator<Jwt> rules) {
    NimbusJwtDecoder decoder = NimbusJwtDecoder.withJwkSetUri(ISSUER + "/.well-known/jwks.json")
        .jwsAlgorithms(a -> a.addAll(List.of(SignatureAlgorithm.ES256, SignatureAlgorithm.RS256)))
        .validateType(false) // the rules do
        .build();
    decoder.setJwtValidator(rules);
    return decoder;
  }

  static class StatusLists implements OAuth2TokenValidator<Jwt> {
    record Copy(byte[] bits, Instant until, Instant renew) {}

    private static final Copy NONE = new Copy(new byte[0], Instant.EPOCH, Instant.EPOCH);

    private final Map<String, Copy> copies = new ConcurrentHashMap<>(); // by address
    private final HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
    private final JwtDecoder decoder = decoder(new DelegatingOAuth2TokenValidator<Jwt>(
        new JwtTypeValidator(List.of("statuslist+jwt")), new JwtTimestampValidator()));

    @Override
    public OAuth2TokenValidatorResult validate(Jwt token) {
      if (token.hasClaim("cnf")) return refused("bound to a key, and proofs are not checked here");
      if (!(token.getClaims().get("status") instanceof Map<?, ?> status
          && status.get("status_list") instanceof Map<?, ?> place
          && place.get("uri") instanceof String uri && uri.startsWith(ISSUER + "/oauth2/status/")
          && place.get("idx") instanceof Long index && index >= 0)) return refused("no place in a status list");
      Copy copy = copies.compute(uri, (u, last) -> last == null ? fetch(u, NONE)
          : Instant.now().isBefore(last.renew) ? last : fetch(u, last));
      if (!Instant.now().isBefore(copy.until)) throw new JwtException("no status list");
      if (index >= 8L * copy.bits.length) return refused("no place in a status list");
      boolean revoked = (copy.bits[(int) (index / 8)] >> (index % 8) & 1) == 1;
      return revoked ? refused("revoked") : OAuth2TokenValidatorResult.success();
    }

    private Copy fetch(String uri, Copy last) {
      try {
        var request = HttpRequest.newBuilder(URI.create(uri)).timeout(Duration.ofSeconds(5)).build();
        Jwt list = decoder.decode(client.send(request, BodyHandlers.ofString()).body());
        if (!uri.equals(list.getSubject())) throw new JwtException("another list");
        byte[] packed = Base64.getUrlDecoder().decode((String) list.getClaimAsMap("status_list").get("lst"));
        byte[] bits = new InflaterInputStream(new ByteArrayInputStream(packed)).readNBytes(1 << 20);
        return new Copy(bits, list.getExpiresAt(), Instant.now().plusSeconds((Long) list.getClaim("ttl")));
      } catch (Exception err) {
        System.getLogger("trails").log(System.Logger.Level.WARNING, uri, err);
        return new Copy(last.bits, last.until, Instant.now().plusSeconds(1)); // tried again after a second
      }
    }

    private static OAuth2TokenValidatorResult refused(String reason) {
      return OAuth2TokenValidatorResult.failure(new OAuth2Error("invalid_token", reason, null));
    }
  }
}
