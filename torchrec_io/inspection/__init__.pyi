from .inference import Finding as Finding
from .inference import Inspected as Inspected
from .survey_files import survey as survey
from .surveyor import FeatureSummary as FeatureSummary
from .surveyor import Survey as Survey
