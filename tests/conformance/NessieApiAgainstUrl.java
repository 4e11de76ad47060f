package headwater.conformance;

import java.lang.reflect.Method;
import java.net.URI;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.projectnessie.client.ext.NessieClientResolver;
import org.projectnessie.jaxrs.tests.BaseTestNessieRest;

/** Nessie's own REST tests, against the server that one system property names; another one may select tests by a pattern. */
@ExtendWith({NessieApiAgainstUrl.Server.class, NessieApiAgainstUrl.Selected.class})
public class NessieApiAgainstUrl extends BaseTestNessieRest {
  public static class Server extends NessieClientResolver {
    @Override
    protected URI getBaseUri(ExtensionContext context) {
      return URI.create(System.getProperty("nessie.test.base"));
    }
  }

  /** The launcher that the kit comes with cannot select methods of nested classes. */
  public static class Selected implements ExecutionCondition {
    private final String pattern = System.getProperty("nessie.test.methods", ".*");

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
      boolean selected = context.getTestMethod().map(Method::getName).map(name -> name.matches(pattern)).orElse(true);
      return selected ? ConditionEvaluationResult.enabled("selected") : ConditionEvaluationResult.disabled("not selected");
    }
  }
}
